import type { SandboxKind } from '../../../contracts/names.ts'
import { hostFault } from './host.ts'
import type { EgressPolicy } from './load.ts'
import { type Placeholder, type PlaceholderValues, placeholderOf } from './placeholders.ts'
import type { Destination } from './schema.ts'

/** The policy of one environment: every placeholder is replaced by a name. */
export interface ResolvedEgress {
  readonly classes: Readonly<Record<SandboxKind, readonly Destination[]>>
  /** Placeholders for which the environment has no name. */
  readonly absent: readonly { readonly kind: SandboxKind; readonly placeholder: Placeholder }[]
}

/**
 * Replaces the placeholders by the environment's names. Throws if a name would not be allowed as a host in the policy
 * file.
 */
export function resolveEgress(policy: EgressPolicy, values: PlaceholderValues): ResolvedEgress {
  const kinds: readonly SandboxKind[] = ['agent', 'command']
  const absent = kinds.flatMap((kind) =>
    policy.classes[kind].flatMap(({ host }) => {
      const placeholder = placeholderOf(host)
      return placeholder === undefined || values[placeholder] !== undefined ? [] : [{ kind, placeholder }]
    }),
  )
  const inPlace = (kind: SandboxKind) => policy.classes[kind].flatMap((one) => resolveOne(one, values))
  return { classes: { agent: inPlace('agent'), command: inPlace('command') }, absent }
}

function resolveOne(destination: Destination, values: PlaceholderValues): Destination[] {
  const placeholder = placeholderOf(destination.host)
  if (placeholder === undefined) return [destination]
  const host = values[placeholder]
  if (host === undefined) return []
  const fault = host.startsWith('*') ? `"${host}" must be one name` : hostFault(host)
  if (fault !== undefined)
    throw new Error(`The environment's name for \${${placeholder}} is refused: ${fault}.`)
  return [{ ...destination, host }]
}
