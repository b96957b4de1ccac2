import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findPulumi } from '../../infra/up/find-pulumi.ts'
import type { Proof } from './cli/proof.ts'
import { ROOT } from './helpers/stack-file.ts'
import { PROOF_PAGE, proofPage } from './proof-page.ts'

/**
 * `npm run test:pulumi`: tests the program with the real engine, or reports that no engine is installed. With
 * `--record` it also writes the recorded requests for the tests of the rules, and docs/infra-proof.md.
 */
const found = await findPulumi(process.env)
if ('skipped' in found) {
  process.stdout.write(`skipped: ${found.skipped}\n`)
  process.exit(0)
}
process.stdout.write(`pulumi ${found.version}\n`)
const isRecording = process.argv.includes('--record')
const others = process.argv.slice(2).filter((word) => word !== '--record')
const folder = mkdtempSync(join(tmpdir(), 'proofs-'))
const proofs = join(folder, 'proofs.jsonl')
writeFileSync(proofs, '')
const vitest = join(ROOT, 'node_modules/vitest/vitest.mjs')
const argv = [vitest, 'run', '--config', join(ROOT, 'vitest.pulumi.config.ts'), ...others]
const child = spawn(process.execPath, argv, {
  stdio: 'inherit',
  cwd: ROOT,
  env: { ...process.env, RECORD: String(isRecording), PROOFS: proofs },
})
const [status] = (await once(child, 'close')) as [number | null]
// A part of the lane proves a part of the page: only a whole run that passed may write it.
if (isRecording && status === 0 && others.length === 0) {
  const rows = readFileSync(proofs, 'utf8').trim().split('\n')
  const page = proofPage({
    cli: found.version,
    date: new Date().toISOString().slice(0, 10),
    proofs: rows.map((row) => JSON.parse(row) as Proof),
  })
  writeFileSync(join(ROOT, PROOF_PAGE), page)
  process.stdout.write(`wrote ${PROOF_PAGE}\n`)
}
rmSync(folder, { recursive: true })
process.exit(status ?? 1)
