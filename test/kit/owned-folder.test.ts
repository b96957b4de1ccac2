import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { beforeEach, expect, it, onTestFinished } from 'vitest'
import { silentLog } from '../../runtime/kit/log.ts'
import { makeOwnedFolder, sweepOwnedFolders } from '../../runtime/kit/owned-folder.ts'
import { startTimeOf } from '../../runtime/kit/start-time.ts'

const PREFIX = 'owned-'
let folder = ''
beforeEach(() => {
  const before = process.env['TMPDIR']
  folder = mkdtempSync(join(tmpdir(), 'aw-owned-'))
  process.env['TMPDIR'] = folder
  onTestFinished(() => {
    if (before === undefined) delete process.env['TMPDIR']
    else process.env['TMPDIR'] = before
    rmSync(folder, { recursive: true })
  })
})

function givenFolder(name: string, owner?: unknown): void {
  mkdirSync(join(folder, name))
  if (owner !== undefined) writeFileSync(join(folder, name, 'owner.json'), JSON.stringify(owner))
}

it('creates a private folder that names its process', async () => {
  const made = await makeOwnedFolder(PREFIX)

  expect(basename(made)).toMatch(/^owned-/)
  expect(statSync(made).mode & 0o777).toBe(0o700)
  await sweepOwnedFolders(PREFIX, silentLog)
  expect(existsSync(made), 'this process lives').toBe(true)
})

it('removes the folders of dead processes, and nothing else', async () => {
  const { pid } = process
  givenFolder(`${PREFIX}dead`, { pid, startTime: `${startTimeOf(pid)}0` })
  givenFolder(`${PREFIX}alive`, { pid, startTime: startTimeOf(pid) })
  givenFolder(`${PREFIX}unknown`)
  givenFolder(`${PREFIX}malformed`, { pid: 'x' })
  givenFolder('other-dead', { pid, startTime: '0' })

  await sweepOwnedFolders(PREFIX, silentLog)

  expect(readdirSync(folder).toSorted()).toEqual([
    'other-dead',
    `${PREFIX}alive`,
    `${PREFIX}malformed`,
    `${PREFIX}unknown`,
  ])
})
