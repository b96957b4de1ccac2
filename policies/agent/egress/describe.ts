import type { SandboxKind } from '../../../contracts/names.ts'
import type { Destination } from './schema.ts'
import { type EgressTarget, placementOf } from './targets.ts'

/** Describes how a target treats a destination. */
export function placementText(destination: Destination, target: EgressTarget): string {
  const placement = placementOf(destination, target)
  if (placement.kind === 'whole') return 'yes'
  return placement.kind === 'loosened'
    ? `yes, without: ${placement.lost.join(', ')}`
    : `no: ${placement.lost.join(', ')}`
}

/** One line for each destination that a target leaves out or allows without its restrictions. */
export function notWhole(
  classes: Readonly<Record<SandboxKind, readonly Destination[]>>,
  target: EgressTarget,
): { readonly kind: SandboxKind; readonly host: string; readonly text: string }[] {
  const kinds: readonly SandboxKind[] = ['agent', 'command']
  return kinds.flatMap((kind) =>
    classes[kind]
      .filter((destination) => placementOf(destination, target).kind !== 'whole')
      .map((destination) => ({ kind, host: destination.host, text: placementText(destination, target) })),
  )
}
