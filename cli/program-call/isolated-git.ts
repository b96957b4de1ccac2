import type { CliIo } from '../terminal/terminal.ts'
import { type Call, type Called, createCallProgram } from './call-program.ts'

export type IsolatedGit = (args: readonly string[], call?: Omit<Call, 'program' | 'args'>) => Promise<Called>

const TIMEOUT_MS = 300_000

/** Git settings that override the repository's configuration. */
const SETTINGS = [
  'core.hooksPath=/dev/null',
  'core.fsmonitor=false',
  'core.attributesFile=/dev/null',
  // With a split index, git writes a second index file into the repository.
  'core.splitIndex=false',
  'gc.auto=0',
  'maintenance.auto=false',
  'protocol.allow=never',
].flatMap((setting) => ['-c', setting])

/**
 * Runs git without the configuration of the machine and of the user. Passes only PATH from the caller's environment,
 * because git variables such as GIT_DIR would redirect git. Git starts in `scratch`, so that a relative entry of PATH
 * never finds a program in a folder of another person.
 */
export function openIsolatedGit(io: Pick<CliIo, 'env'>, scratch: string): IsolatedGit {
  const env = {
    PATH: io.env['PATH'],
    HOME: scratch,
    LC_ALL: 'C',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_ATTR_NOSYSTEM: '1',
    GIT_NO_REPLACE_OBJECTS: '1',
    GIT_TERMINAL_PROMPT: '0',
    GIT_NO_LAZY_FETCH: '1',
    // Allows no protocol. A repository's `protocol.ext.allow` overrides `protocol.allow`, but not this variable.
    GIT_ALLOW_PROTOCOL: '',
    GIT_OPTIONAL_LOCKS: '0',
  }
  const call = createCallProgram({ cwd: scratch, env })
  return (args, rest = {}) =>
    call({ timeoutMs: TIMEOUT_MS, ...rest, program: 'git', args: [...SETTINGS, ...args] })
}
