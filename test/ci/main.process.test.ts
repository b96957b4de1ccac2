import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'

const MAIN = join(import.meta.dirname, 'main.ts')
const PROJECT = join(import.meta.dirname, 'fixtures')

/** Runs the fixture's tests as the gate does. Returns the exit status and the summary lines. */
function run(env: Record<string, string> = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'ci-tests-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const { status, stdout } = spawnSync(process.execPath, [MAIN, PROJECT], {
    env: { PATH: process.env['PATH'], HOME: folder, SECOND_RUN: join(folder, 'mark'), ...env },
    encoding: 'utf8',
  })
  const said = stdout.trim().split('\n')
  return { status, lines: said.filter((line) => /^(?:flaky: |failed: |\d+ passed)/.test(line)), said }
}

it('passes when a test passes the second time, and lists it with its first error', () => {
  const { status, lines, said } = run()

  expect(lines).toEqual([
    'flaky: flaky.check.ts: passes from its second run on: expected true to be false // Object.is equality',
    '2 passed, 0 failed, 2 skipped',
  ])
  expect(said.at(-1)).toBe(lines.at(-1))
  expect(status).toBe(0)
})

it('fails when a test fails twice', () => {
  const { status, lines } = run({ BROKEN: '1' })

  expect(lines).toEqual([
    'failed: broken.check.ts: never passes: expected 1 to be 2 // Object.is equality',
    'flaky: flaky.check.ts: passes from its second run on: expected true to be false // Object.is equality',
    '2 passed, 1 failed, 1 skipped',
  ])
  expect(status).toBe(1)
})
