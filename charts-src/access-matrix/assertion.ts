import { SandboxKind } from '../../contracts/names.ts'
import type { Actor, ActorId } from './stage.ts'
import type { World } from './world.ts'

/** A claim about the rendered policies, with the row of docs/network.md that requires it. */
export interface Assertion {
  readonly row: AssertionRow
  /** The claim as a sentence that is true for a correct tree. */
  readonly title: string
  /** The reason why the claim does not hold. Absent when it holds. */
  readonly failure?: string
}

export const ROWS = {
  pair: 'between two ends, and on each side by itself, exactly what the table lists is open',
  'without refusals':
    'the same holds where no rule denies: what is closed is closed because nothing opens it',
  range: 'no sandbox reaches a metadata service, a private or shared range, or a range of the cluster',
  name: 'exactly the listed names are looked up and connected to, at the listed ports',
  rebinding: 'a listed name that resolves into a forbidden range is not connected to',
  'broad allow': 'one broad allow beside the policies opens nothing that must never be open',
  explicit: "the cluster's own ranges are denied by name",
} as const
export type AssertionRow = keyof typeof ROWS

export const assertion = (row: AssertionRow, title: string, failure: string | undefined): Assertion => ({
  row,
  title,
  ...(failure === undefined ? {} : { failure }),
})

export const SANDBOX_IDS: readonly ActorId[] = SandboxKind.options

export const actorsOf = ({ stage }: World, ids: readonly ActorId[]): Actor[] =>
  stage.actors.filter(({ id }) => ids.includes(id))
