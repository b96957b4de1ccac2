import { existsSync } from 'node:fs'
import type { CommandShell } from '../../contracts/exec.ts'

/** The shell that a command is given to, and how it is started. */
export interface ShellProgram {
  readonly name: CommandShell
  readonly file: string
  /** The program's arguments before the command; `nameArgument` follows the command and becomes `$0`. */
  readonly args: readonly string[]
  readonly nameArgument: string
}

/** Where a sandbox can have bash: `/usr` is in every sandbox, `/bin` is a link into it or mounted beside it. */
const BASH_PATHS = ['/bin/bash', '/usr/bin/bash']

/**
 * Privileged mode (`-p`) reads no start-up file, no `BASH_ENV` or `SHELLOPTS`, and takes no functions from the
 * environment: what a line means is decided by the line alone. Governance reads it by bash's grammar.
 */
const bash = (file: string): ShellProgram => ({
  name: 'bash',
  file,
  args: ['-p', '-c', '--'],
  nameArgument: 'bash',
})

const SH: ShellProgram = { name: 'sh', file: '/bin/sh', args: ['-c', '--'], nameArgument: 'sh' }

/** The shell for all commands of this machine's sandboxes: bash, or `/bin/sh` where there is no bash. */
export function commandShell(exists: (path: string) => boolean = existsSync): ShellProgram {
  const file = BASH_PATHS.find(exists)
  return file === undefined ? SH : bash(file)
}
