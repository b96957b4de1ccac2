import type { Binding, BindingDeps } from './binding.ts'
import type { Connection } from './connection.ts'

/** The context of every request. */
export interface ServeContext {
  readonly connection: Connection
  readonly binding: Binding
  readonly log: BindingDeps['log']
}
