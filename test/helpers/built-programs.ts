import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { inject } from 'vitest'
import { COMPILE_CACHE as SOURCES_CACHE } from './compile-cache.ts'
import { askFor } from './made-once.ts'

interface Programs {
  /** The command `agentweaver`. */
  readonly cli: string
  /** The API service. */
  readonly api: string
  /** Where Node.js stores the compiled code of the programs, which shortens their next start. */
  readonly cache: string
}

const inProject = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url))
const SOURCES: Programs = {
  cli: inProject('cli/main.ts'),
  api: inProject('runtime/api/server.ts'),
  cache: SOURCES_CACHE.NODE_COMPILE_CACHE,
}

/**
 * The programs of the npm package, built once for all test files of a run. The services and sandboxes that they start
 * are built too. A configuration without `programs.setup.ts`, such as the one for a cluster, has the sources.
 */
async function programs(): Promise<Programs> {
  const port: number | undefined = inject('packageBroker')
  if (port === undefined) return SOURCES
  const folder = await askFor<string>(port)
  return { cli: join(folder, 'cli.js'), api: join(folder, 'api.js'), cache: join(folder, 'cache') }
}

const { cli, api, cache } = await programs()

export { api as API, cli as CLI }

/** Environment variables for these programs. */
export const COMPILE_CACHE = { NODE_COMPILE_CACHE: cache } as const
