import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { EGRESS_ENVIRONMENT_FILE, EgressEnvironment } from '../../../contracts/egress.ts'

export type RunEnvironment = EgressEnvironment

export const NO_RUN_ENVIRONMENT: RunEnvironment = { variables: {}, gitConfig: [] }

/**
 * Returns the variables and settings of git that the service has written for this sandbox. They contain placeholders
 * instead of credentials. The service writes the file after the executor was created.
 */
export function runEnvironmentReader(folder: string): () => RunEnvironment {
  const file = join(folder, EGRESS_ENVIRONMENT_FILE)
  let read: RunEnvironment | undefined
  return () => {
    if (!read && existsSync(file)) read = EgressEnvironment.parse(JSON.parse(readFileSync(file, 'utf8')))
    return read ?? NO_RUN_ENVIRONMENT
  }
}
