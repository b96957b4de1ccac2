import { existsSync } from 'node:fs'
import type { CommandShell } from '../../contracts/exec.ts'

/** The shell that runs commands, and its arguments. */
export interface ShellProgram {
  readonly name: CommandShell
  readonly file: string
  /** Arguments before the command. `nameArgument` follows the command and becomes `$0`. */
  readonly args: readonly string[]
  readonly nameArgument: string
}

/**
 * Locations of bash that are visible in every sandbox: `/usr` always is, and `/bin` is a link into it or
 * mounted.
 */
const BASH_PATHS = ['/bin/bash', '/usr/bin/bash']

/**
 * Privileged mode (`-p`) reads no start-up file, no `BASH_ENV` and no `SHELLOPTS`, and imports no functions
 * from the environment. The meaning of a command then depends only on its text, which governance parses with a
 * bash grammar.
 */
const bash = (file: string): ShellProgram => ({
  name: 'bash',
  file,
  args: ['-p', '-c', '--'],
  nameArgument: 'bash',
})

const SH: ShellProgram = { name: 'sh', file: '/bin/sh', args: ['-c', '--'], nameArgument: 'sh' }

/** Returns the shell for all commands on this machine: bash, or `/bin/sh` if bash is not installed. */
export function commandShell(exists: (path: string) => boolean = existsSync): ShellProgram {
  const file = BASH_PATHS.find(exists)
  return file === undefined ? SH : bash(file)
}
