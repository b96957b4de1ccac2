import type { SandboxKind } from '../../../contracts/names.ts'
import type { RunPhase } from '../../../contracts/policy.ts'
import type { ResolvedEgress } from './resolve.ts'
import { destinationsFor } from './targets.ts'

/** One allowlist entry with all defaults filled in. */
export interface AllowedDestination {
  readonly host: string
  readonly ports: readonly number[]
  readonly methods: readonly string[] | 'any'
  readonly phases: readonly RunPhase[]
  readonly caller: 'any' | 'agent-host'
  readonly http?: 'allow'
  readonly addresses?: readonly string[]
}

const PHASES: readonly RunPhase[] = ['setup', 'work']

/**
 * Returns the destinations that a target allows for a class of sandboxes: the egress proxy, or the laptop's command
 * sandbox.
 */
export function allowlist(
  egress: ResolvedEgress,
  kind: SandboxKind,
  target: 'proxy' | 'laptop',
): readonly AllowedDestination[] {
  return destinationsFor(egress.classes[kind], target).map(
    ({ host, ports, mode, methods, phases = PHASES, caller, http, addresses }): AllowedDestination => ({
      host,
      ports,
      methods: methods ?? (mode === 'read-only' ? ['GET', 'HEAD'] : 'any'),
      phases,
      caller: caller ?? 'any',
      ...(http && { http }),
      ...(addresses && { addresses }),
    }),
  )
}
