import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { findPulumi, isNewEnough } from '../../infra/up/find-pulumi.ts'
import { ROOT } from './helpers/stack-file.ts'

function aPath(script?: string) {
  const folder = mkdtempSync(join(tmpdir(), 'path-'))
  if (script !== undefined) {
    writeFileSync(join(folder, 'pulumi'), `#!/bin/sh\n${script}\n`)
    chmodSync(join(folder, 'pulumi'), 0o755)
  }
  return { folder, [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }) }
}

test.each([
  ['v3.250.0', true],
  ['v3.270.1-alpha.1+dirty', true],
  ['v4.0.0', true],
  ['v3.249.9', false],
  ['v2.999.0', false],
  ['something else', false],
])('takes version %s: %s', (version, isTaken) => {
  expect(isNewEnough(version)).toBe(isTaken)
})

test('reports skipped candidates with reasons, and finds an installed CLI', async () => {
  using nothing = aPath()
  using old = aPath('echo v3.100.0')
  using fresh = aPath('echo v3.262.0; [ "$PULUMI_SKIP_UPDATE_CHECK" = true ] || exit 1')

  expect(await findPulumi({ PATH: nothing.folder })).toEqual({ skipped: 'no pulumi on PATH' })
  expect(await findPulumi({ PATH: old.folder })).toEqual({ skipped: 'pulumi v3.100.0 is older than 3.250.0' })
  expect(await findPulumi({ PATH: fresh.folder })).toEqual({ version: 'v3.262.0' })
})

test('does not call a broken engine absent', async () => {
  using broken = aPath('echo broken >&2; exit 3')

  await expect(findPulumi({ PATH: broken.folder })).rejects.toThrow(/broken|failed/)
})

test('the lane ends well without an engine, and says skipped instead of passed', async () => {
  using nothing = aPath()
  const child = spawn(process.execPath, [join(ROOT, 'test/pulumi/main.ts')], {
    env: { PATH: nothing.folder },
  })
  const chunks: Buffer[] = []
  child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk))

  const [status] = (await once(child, 'close')) as [number]

  expect(status).toBe(0)
  expect(Buffer.concat(chunks).toString()).toBe('skipped: no pulumi on PATH\n')
})
