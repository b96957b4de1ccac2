import { readFileSync } from 'node:fs'
import { Script } from 'node:vm'

/** What lies beside a launcher: a program, which is one function, and what V8 compiled of it. */
export const PROGRAM = 'program.js'
export const CODE_CACHE = 'program.v8'

/** The parameters of the function that a program is, and all that it gets from its launcher. */
export const PARAMETERS = ['require', '__filename', '__dirname'] as const

interface Compiling {
  /** What stack traces call the program. */
  readonly name: string
  /** What is compiled already. */
  readonly cachedData?: Buffer
}

/** Compiles the program at `file`. */
export function compileProgram(file: string, { name, ...options }: Compiling): Script {
  return new Script(readFileSync(file, 'utf8'), { filename: name, ...options })
}
