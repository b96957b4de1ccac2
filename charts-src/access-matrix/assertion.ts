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
  pair: 'exactly the connections of the table are open, between two pods and on each side alone',
  'without refusals':
    'the same holds without deny rules: closed connections are closed because no rule opens them',
  range: 'no sandbox reaches a metadata service, a private or shared range, or a range of the cluster',
  name: 'a sandbox can resolve and reach exactly the listed names, at the listed ports',
  rebinding: 'a sandbox cannot reach a listed name that resolves to a forbidden range',
  'broad allow': 'an additional policy that allows everything opens no connection that must stay closed',
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
