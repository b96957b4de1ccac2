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
  // The transport makes no difference to the other blocks. The pods of a cluster pass all of them over TCP.
  only: ['requests that are not what they seem', 'the guard', 'streams'],
})
