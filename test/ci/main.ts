import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { runFiles } from './run-files.ts'
import { runTwice } from './run-twice.ts'

/**
 * Runs tests for the gate: `main.ts [--project NAME] [--shard 1/2] [FOLDER]`. The options are those of vitest. Prints the
 * failures, then the flaky tests, then one line `N passed, N failed, N skipped`.
 */
const { values: selection, positionals } = parseArgs({
  options: { project: { type: 'string' }, shard: { type: 'string' } },
  allowPositionals: true,
})
const root = resolve(positionals[0] ?? resolve(import.meta.dirname, '../..'))
const { passed, failed, skipped, flaky, failures } = await runTwice((files) =>
  runFiles(root, files ? { files } : selection),
)
const lines = [
  ...failures.map((line) => `failed: ${line}`),
  ...flaky.map((line) => `flaky: ${line}`),
  `${passed} passed, ${failed} failed, ${skipped} skipped`,
]
process.stdout.write(`${lines.join('\n')}\n`)
process.exit(failed === 0 ? 0 : 1)
