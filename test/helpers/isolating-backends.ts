import { bwrapBackend } from '../../runtime/executors/bwrap.ts'
import type { Backend } from '../../runtime/executors/executor.ts'
import { namespacesBackend } from '../../runtime/executors/namespaces.ts'

/** The backends that isolate commands on a laptop. Each promise about commands there is tested with each of them. */
export const ISOLATING_BACKENDS: readonly Backend[] = [bwrapBackend, namespacesBackend]
