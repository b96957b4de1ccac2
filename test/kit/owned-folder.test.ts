import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, symlinkSync } from 'node:fs'
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

/** The name of a folder of this process, or of one with its id that started at another time. */
const nameOf = (startTime: number) => [process.pid, startTime].map((n) => n.toString(36)).join('-')

it('creates a private folder that names its process', async () => {
  const made = await makeOwnedFolder(PREFIX)

  expect(basename(made)).toMatch(/^owned-[0-9a-z]+-[0-9a-z]+-\w{6}$/)
  expect(statSync(made).mode & 0o777).toBe(0o700)
  await sweepOwnedFolders(PREFIX, silentLog)
  expect(existsSync(made), 'this process lives').toBe(true)
})

it('removes the folders of dead processes, and nothing else', async () => {
  const started = Number(startTimeOf(process.pid))
  const alive = `${PREFIX}${nameOf(started)}-abcdef`
  const dead = `${nameOf(started - 1)}-abcdef`
  for (const name of [alive, PREFIX + dead, `${PREFIX}unknown`, `other-${dead}`])
    mkdirSync(join(folder, name))
  symlinkSync('/nowhere', join(folder, `${PREFIX}${nameOf(started - 2)}-abcdef`))

  await sweepOwnedFolders(PREFIX, silentLog)

  expect(readdirSync(folder).toSorted()).toEqual([`other-${dead}`, alive, `${PREFIX}unknown`].toSorted())
})
