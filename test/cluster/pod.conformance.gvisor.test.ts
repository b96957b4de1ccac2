import { testAgentHostInPods } from './helpers/pod-hosts.ts'

testAgentHostInPods('gvisor')
