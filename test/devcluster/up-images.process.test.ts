import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'

const MAIN = join(import.meta.dirname, '../../devcluster/main.ts')

function up(...args: string[]) {
  const { status, stderr } = spawnSync(process.execPath, [MAIN, 'up', ...args], { encoding: 'utf8' })
  return { status, stderr }
}

test('rejects --images without --service', () => {
  expect(up('--images', '/tmp')).toEqual({
    status: 1,
    stderr: '--images needs --service: only the product uses these images\n',
  })
})

test('lists the archives that --images lacks before a cluster starts', () => {
  const folder = mkdtempSync(join(tmpdir(), 'up-images-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  writeFileSync(join(folder, 'api.tar'), '')

  const { status, stderr } = up('--service', '--images', folder)

  expect(status).toBe(1)
  expect(stderr).toContain(
    `no such file: ${folder}/agent-host.tar, ${folder}/toolbox.tar, ${folder}/egress-proxy.tar`,
  )
})
