import { SandboxKind } from '../../contracts/names.ts'
import type { Endpoint, EndpointId } from './endpoints.ts'
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
  pair: 'between two endpoints, and on each side alone, exactly the listed ports are open',
  'without deny rules':
    'the same holds without any deny rule: a closed connection is closed because no rule allows it',
  range:
    'no sandbox reaches a metadata service, a private or shared range, or a range of the cluster, and no egress proxy does, except the private ranges that an entry names in `addresses`',
  name: 'exactly the listed names are looked up and connected to, at the listed ports; by the egress proxy, any name at any port of TCP but those of resolvers',
  rebinding: 'a listed name that resolves into a forbidden range is not connected to',
  'broad allow': 'an additional policy that allows everything opens no forbidden connection',
  explicit: 'the ranges of the cluster are in a deny rule',
} as const
export type AssertionRow = keyof typeof ROWS

export const assertion = (row: AssertionRow, title: string, failure: string | undefined): Assertion => ({
  row,
  title,
  ...(failure === undefined ? {} : { failure }),
})

export const SANDBOX_IDS: readonly EndpointId[] = SandboxKind.options

/** The egress proxy, if the environment has one. */
export const proxyIds = ({ environment }: Pick<World, 'environment'>): readonly EndpointId[] =>
  environment.egress.mode === 'proxy' ? ['proxy'] : []

export const endpointsOf = ({ topology }: World, ids: readonly EndpointId[]): Endpoint[] =>
  topology.endpoints.filter(({ id }) => ids.includes(id))
