import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { CODE_CACHE, compileProgram, PROGRAM } from './program.ts'

/** The entry of a bundled program: starts it with what V8 compiled when it was bundled. */
const file = join(__dirname, PROGRAM)
const cachedData = readFileSync(join(__dirname, CODE_CACHE))
const script = compileProgram(file, { name: file, cachedData })
// It starts all the same: slower, and with no other code.
if (script.cachedDataRejected) {
  process.emitWarning(`${CODE_CACHE} was made by another Node or under other V8 flags: it is not used`)
}
script.runInThisContext()(require, file, __dirname)
