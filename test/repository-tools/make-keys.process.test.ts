import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'

const SCRIPT = fileURLToPath(new URL('../../tools/make-keys.ts', import.meta.url))

const makeKeys = (...args: string[]) => spawnSync(process.execPath, [SCRIPT, ...args], { encoding: 'utf8' })

function aFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'aw-keys-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

const contentOf = (folder: string) =>
  readdirSync(folder).map((name) => [name, readFileSync(join(folder, name), 'utf8')])

test('a second run keeps the keys, lists them and prints the next step', () => {
  const folder = aFolder()
  expect(makeKeys(folder).status).toBe(0)
  const before = contentOf(folder)

  const { status, stdout, stderr } = makeKeys(folder)

  expect({ status, stdout }).toEqual({ status: 2, stdout: '' })
  expect(stderr).toContain(`${folder} already contains keys: deployment-key, ticket-key, api-key`)
  expect(stderr).toContain('name another folder')
  expect(stderr).not.toContain('    at ')
  expect(contentOf(folder)).toEqual(before)
})

test('does not add new keys to an incomplete set', () => {
  const folder = aFolder()
  makeKeys(folder)
  rmSync(join(folder, 'deployment-key'))

  expect(makeKeys(folder).status).toBe(2)
  expect(readdirSync(folder)).not.toContain('deployment-key')
})

test('--help prints the usage and creates nothing', () => {
  const { status, stdout } = makeKeys('--help')

  expect(status).toBe(0)
  expect(stdout).toContain('Usage: npm run keys -- FOLDER')
})

test.each([[[]], [['a', 'b']], [['--bogus']]])('rejects the arguments %j with the usage', (args) => {
  const { status, stderr } = makeKeys(...args)

  expect(status).toBe(2)
  expect(stderr).toMatch(/^error: .*Usage: npm run keys/s)
})
