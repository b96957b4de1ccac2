import type { Cloud } from './cloud.ts'
import type { Properties } from './values.ts'

export interface CheckFailure {
  readonly property: string
  readonly reason: string
}
export interface Checked {
  readonly inputs: Properties
  readonly failures: readonly CheckFailure[]
}
export interface Compared {
  /** Changes by path. Empty: no change. */
  readonly changes: ReadonlyMap<string, 'add' | 'delete' | 'update'>
  /** Paths of changes that require a replacement. */
  readonly replaces: readonly string[]
  readonly deleteBeforeReplace: boolean
}

/** A resource as the engine names it in every request. */
export interface Named {
  readonly urn: string
  readonly type: string
  readonly name: string
}
export interface State {
  readonly id: string
  readonly inputs: Properties
  readonly outputs: Properties
}

/**
 * The provider-specific part of a fake provider. `provider-server.ts` handles the wire format, the faults and the
 * recording.
 */
export interface StandIn {
  readonly name: string
  /** Whether the provider receives secrets with markers. If not, the engine marks the outputs. */
  readonly acceptsSecrets: boolean
  checkConfig(news: Properties): Checked
  diffConfig(olds: Properties, news: Properties): Compared
  configure(args: Properties): void
  check(named: Named, olds: Properties, news: Properties): Checked
  diff(named: Named, old: State, news: Properties): Compared
  /** The outputs that are known before the resource exists. `old` is set for an update. */
  preview(named: Named, inputs: Properties, old?: State): Properties
  create(named: Named, inputs: Properties): Promise<State>
  read(named: Named, id: string, old: State | undefined): State | undefined
  update(named: Named, old: State, news: Properties): Promise<State>
  delete(named: Named, old: State): Promise<void>
  invoke(token: string, args: Properties): Properties
}

/** Makes one for each connection: the engine dials once for each provider of the program and configures it. */
export type StandInFactory = (cloud: Cloud) => StandIn
