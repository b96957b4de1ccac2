import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseStateConfig, type StateConfig } from '../../infra/state/state-config.ts'

export const ROOT = resolve(import.meta.dirname, '../..')
export const stateFileOf = (environment: string) => join(ROOT, `infra/state/examples/${environment}.json`)

/** The example of an environment. */
export function stateConfigOf(environment: string): StateConfig {
  const parsed = parseStateConfig(readFileSync(stateFileOf(environment), 'utf8'))
  if ('problems' in parsed) throw new Error(parsed.problems.join('\n'))
  return parsed.config
}
