import { resolve } from 'node:path'
import { runFiles } from './run-files.ts'
import { runTwice } from './run-twice.ts'

/**
 * Runs the tests of `npm test` for the gate: `main.ts [project folder]`. Prints the failures, then the flaky tests,
 * then one line `N passed, N failed, N skipped`.
 */
const root = resolve(process.argv[2] ?? resolve(import.meta.dirname, '../..'))
const { passed, failed, skipped, flaky, failures } = await runTwice((files) => runFiles(root, files))
const lines = [
  ...failures.map((line) => `failed: ${line}`),
  ...flaky.map((line) => `flaky: ${line}`),
  `${passed} passed, ${failed} failed, ${skipped} skipped`,
]
process.stdout.write(`${lines.join('\n')}\n`)
process.exit(failed === 0 ? 0 : 1)
