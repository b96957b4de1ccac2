import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import v8 from 'node:v8'
import { CODE_CACHE, compileProgram, PROGRAM } from './program.ts'

/**
 * The entry of a bundled program while it is bundled: as `launch.ts`, and when it ends it leaves behind what V8 compiled
 * for it, functions that ran included. Node's own compile cache is made before any has run.
 */
const file = join(__dirname, PROGRAM)
// A cache is good for the flags that it is made under, so the program cannot change them here.
v8.setFlagsFromString = () => undefined
// The name is in the cache: a launcher says another one, and where this was built is nobody's business.
const script = compileProgram(file, { name: PROGRAM })
process.on('exit', () => writeFileSync(join(__dirname, CODE_CACHE), script.createCachedData()))
script.runInThisContext()(require, file, __dirname)
