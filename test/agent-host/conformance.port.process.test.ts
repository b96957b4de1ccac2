import { afterAll } from 'vitest'
import { testAgentHost } from '../conformance/agent-host.ts'
import { createLaptop, startOnPort } from './laptop-hosts.ts'

const laptop = createLaptop()
afterAll(() => laptop.remove())

testAgentHost({
  name: 'an AgentHost on a TCP port',
  start: () => startOnPort(laptop),
  keys: () => laptop.keys,
  hasIdentity: false,
  // The omitted suites cover AgentHost before its configuration, where the transport makes no difference.
  only: ['requests that are not what they seem', 'the guard', 'decisions', 'turns', 'commands', 'streams'],
})
