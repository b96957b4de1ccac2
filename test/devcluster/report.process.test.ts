import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { REPORT_FILE } from '../cluster/run/report.ts'

const ROOT = join(import.meta.dirname, '..', '..')

it('reports a hook of a describe block that failed, and the tests that passed', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'aw-report-'))
  try {
    const text = `import { beforeAll, describe, it } from 'vitest'
      it('passes', () => {})
      describe('a block', () => {
        beforeAll(() => { throw new Error('the pod never waited') })
        it('is not reached', () => {})
      })`
    writeFileSync(join(folder, 'a.test.mjs'), text)
    writeFileSync(join(folder, 'vitest.config.mjs'), 'export default {}')
    symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
    const report = join(folder, 'report.json')
    const env = { ...process.env, [REPORT_FILE]: report }
    const vitest = join(ROOT, 'node_modules/vitest/vitest.mjs')
    const reporter = join(ROOT, 'test/cluster/run/report.ts')
    const argv = [vitest, 'run', '--root', folder, `--reporter=${reporter}`]

    await promisify(execFile)(process.execPath, argv, { env, cwd: folder }).catch(() => undefined)

    expect(JSON.parse(readFileSync(report, 'utf8'))).toMatchObject({
      strays: 0,
      files: [{ passed: 1, failures: ['the pod never waited'], repeated: [] }],
    })
  } finally {
    rmSync(folder, { recursive: true })
  }
})
