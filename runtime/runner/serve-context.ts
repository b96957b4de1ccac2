import type { Binding, BindingDeps } from './binding.ts'
import type { Connection } from './connection.ts'
import type { Freezer } from './freezer.ts'

/** The context of every request. */
export interface ServeContext {
  readonly connection: Connection
  readonly binding: Binding
  readonly freezer: Freezer
  readonly log: BindingDeps['log']
}
