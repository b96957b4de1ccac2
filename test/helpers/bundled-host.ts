import { dirname, join } from 'node:path'
import { inject } from 'vitest'
import { askFor } from './made-once.ts'

/**
 * The bundled AgentHost with its runner, made once for all test files of a run. It starts several times as fast as the
 * sources, which only the suites of whole processes start.
 */
export const bundledHost = (): Promise<string> => askFor(inject('programsBroker'))

/** The runner of that AgentHost, as a separate program. */
export const bundledRunner = async (): Promise<string> =>
  join(dirname(await bundledHost()), '../runner/server.cjs')
