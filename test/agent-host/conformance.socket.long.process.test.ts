import { afterAll } from 'vitest'
import { testAgentHost } from '../conformance/agent-host.ts'
import { createLaptop, startOnSocket } from './laptop-hosts.ts'

const laptop = createLaptop()
afterAll(() => laptop.remove())

testAgentHost({
  name: 'an AgentHost on a Unix socket',
  start: () => startOnSocket(laptop),
  keys: () => laptop.keys,
  hasIdentity: false,
})
