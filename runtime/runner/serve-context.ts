import type { EgressAccess } from '../../contracts/egress-control.ts'
import type { Binding, BindingDeps } from './binding.ts'
import type { Connection } from './connection.ts'
import type { Freezer } from './freezer.ts'

/** The way of commands to the egress proxy. */
export interface CommandRelay {
  use(access: EgressAccess): void
  /** Calls back with the sentence of each refused connection. The return value unsubscribes. */
  onRefusal(listener: (sentence: string) => void): () => void
}

/** The context of every request. */
export interface ServeContext {
  readonly connection: Connection
  readonly binding: Binding
  readonly freezer: Freezer
  readonly log: BindingDeps['log']
  readonly relay?: CommandRelay | undefined
}
