import { describe } from 'vitest'
import { bodyCases } from './agent-host-cases/bodies.ts'
import { clockCases } from './agent-host-cases/clock.ts'
import { commandCases } from './agent-host-cases/commands.ts'
import { decisionCases } from './agent-host-cases/decisions.ts'
import { guardCases } from './agent-host-cases/guard.ts'
import type { Subject } from './agent-host-cases/host.ts'
import { oneShotCases } from './agent-host-cases/one-shot.ts'
import { smugglingCases } from './agent-host-cases/smuggling.ts'
import { streamCases } from './agent-host-cases/streams.ts'
import { ticketCases } from './agent-host-cases/tickets.ts'
import { turnCases } from './agent-host-cases/turns.ts'

export interface AgentHostSuite extends Subject {
  readonly name: string
  /** The blocks to run, if another suite runs the others on the same code. @default all */
  readonly only?: readonly Block[]
  /** Why this machine cannot run the suite. The suite is skipped, and its title contains the reason. */
  readonly missing?: string | undefined
}

const BLOCKS = {
  tickets: ticketCases,
  'clocks and keys': clockCases,
  'one configuration': oneShotCases,
  bodies: bodyCases,
  'requests that are not what they seem': smugglingCases,
  'the guard': guardCases,
  decisions: decisionCases,
  turns: turnCases,
  commands: commandCases,
  streams: streamCases,
} as const
type Block = keyof typeof BLOCKS

/** The guarantees of every AgentHost: over a Unix socket on a laptop, over TCP in a pod. */
export function testAgentHost({ name, missing, only, ...suite }: AgentHostSuite): void {
  const title = missing === undefined ? name : `${name} (skipped: ${missing})`
  describe.skipIf(missing !== undefined)(title, () => {
    for (const block of only ?? (Object.keys(BLOCKS) as Block[])) describe(block, () => BLOCKS[block](suite))
  })
}
