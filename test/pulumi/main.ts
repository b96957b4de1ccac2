import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { findPulumi } from './cli/find-pulumi.ts'
import { ROOT } from './helpers/stack-file.ts'

/** `npm run test:pulumi`: the program under the real engine, or a word that there is none. */
const found = await findPulumi()
if ('skipped' in found) {
  process.stdout.write(`skipped: ${found.skipped}\n`)
  process.exit(0)
}
process.stdout.write(`pulumi ${found.version}\n`)
const vitest = join(ROOT, 'node_modules/vitest/vitest.mjs')
const argv = [vitest, 'run', '--config', join(ROOT, 'vitest.pulumi.config.ts'), ...process.argv.slice(2)]
const child = spawn(process.execPath, argv, { stdio: 'inherit', cwd: ROOT })
const [status] = (await once(child, 'close')) as [number | null]
process.exit(status ?? 1)
