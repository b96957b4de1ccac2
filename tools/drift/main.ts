import { readFileSync } from 'node:fs'
import process from 'node:process'
import { driftPage, judgeDrift } from './judge-drift.ts'

const [file, ...more] = process.argv.slice(2)
if (file === undefined || more.length > 0) {
  process.stderr.write('Usage: node tools/drift/main.ts <output of "pulumi refresh --preview-only --json">\n')
  process.exit(2)
}
const drifts = judgeDrift(readFileSync(file, 'utf8'))
process.stdout.write(driftPage(drifts))
process.exitCode = drifts.some(({ isExpected }) => !isExpected) ? 1 : 0
