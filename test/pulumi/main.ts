import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { findPulumi } from './cli/find-pulumi.ts'
import { ROOT } from './helpers/stack-file.ts'

/**
 * `npm run test:pulumi`: the program under the real engine, or a word that there is none. With `--record` it also writes
 * what it has seen: the requests that tests of rules read, and docs/infra-proof.md.
 */
const found = await findPulumi()
if ('skipped' in found) {
  process.stdout.write(`skipped: ${found.skipped}\n`)
  process.exit(0)
}
process.stdout.write(`pulumi ${found.version}\n`)
const vitest = join(ROOT, 'node_modules/vitest/vitest.mjs')
const isRecording = process.argv.includes('--record')
const others = process.argv.slice(2).filter((word) => word !== '--record')
const argv = [vitest, 'run', '--config', join(ROOT, 'vitest.pulumi.config.ts'), ...others]
const child = spawn(process.execPath, argv, {
  stdio: 'inherit',
  cwd: ROOT,
  env: { ...process.env, RECORD: String(isRecording) },
})
const [status] = (await once(child, 'close')) as [number | null]
process.exit(status ?? 1)
