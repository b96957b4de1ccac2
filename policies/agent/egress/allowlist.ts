import type { SandboxKind } from '../../../contracts/names.ts'
import type { RunPhase } from '../../../contracts/policy.ts'
import type { ResolvedEgress } from './resolve.ts'
import { destinationsFor } from './targets.ts'

/** One line of an allowlist, with nothing left to default. */
export interface AllowedDestination {
  readonly host: string
  readonly ports: readonly number[]
  readonly methods: readonly string[] | 'any'
  readonly phases: readonly RunPhase[]
  readonly caller: 'any' | 'agent-host'
}

const PHASES: readonly RunPhase[] = ['setup', 'work']

/** What an egress proxy, or whatever holds a laptop's commands, lets through for a class of sandboxes. */
export function allowlist(
  egress: ResolvedEgress,
  kind: SandboxKind,
  target: 'proxy' | 'laptop',
): readonly AllowedDestination[] {
  return destinationsFor(egress.classes[kind], target).map(
    ({ host, ports, mode, methods, phases = PHASES, caller }): AllowedDestination => ({
      host,
      ports,
      methods: methods ?? (mode === 'read-only' ? ['GET', 'HEAD'] : 'any'),
      phases,
      caller: caller ?? 'any',
    }),
  )
}
