import { readFileSync } from 'node:fs'
import { Script } from 'node:vm'

/** What lies beside a launcher: a program, which is one function, and what V8 compiled of it. */
export const PROGRAM = 'program.js'
export const CODE_CACHE = 'program.v8'

/** The parameters of the function that a program is, and all that it gets from its launcher. */
export const PARAMETERS = ['require', '__filename', '__dirname'] as const

/** Compiles the program at `file`, or takes from `cachedData` what is compiled already. */
export function compileProgram(file: string, cachedData?: Buffer): Script {
  const source = readFileSync(file, 'utf8')
  return new Script(source, { filename: file, ...(cachedData && { cachedData }) })
}
