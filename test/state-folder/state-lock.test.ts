import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { writeServiceFile } from '../../runtime/state-folder/service-file.ts'
import { lockStateFolder, lockStateFolderWhenFree } from '../../runtime/state-folder/state-lock.ts'

function aFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'aw-lock-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  return folder
}

it('waits for a service that stops, and says so once', async () => {
  const folder = aFolder()
  const release = lockStateFolder(folder)
  let told = 0

  const waiting = lockStateFolderWhenFree(folder, {
    withinMs: 600_000,
    onWait: () => {
      told += 1
      setImmediate(release)
    },
  })

  const unlock = await waiting
  expect(told).toBe(1)
  expect(() => lockStateFolder(folder)).toThrow(/starting or stopping/)
  unlock()
})

it('gives up after the given time', async () => {
  const folder = aFolder()
  onTestFinished(lockStateFolder(folder))

  const waiting = lockStateFolderWhenFree(folder, { withinMs: 0, onWait: () => undefined })

  await expect(waiting).rejects.toThrow(/starting or stopping/)
})

it('does not wait for a service that serves requests', async () => {
  const folder = aFolder()
  onTestFinished(lockStateFolder(folder))
  await writeServiceFile(folder, { url: 'http://127.0.0.1:1', socket: '/s', pid: 1, startedIn: '/' })
  let told = 0

  const waiting = lockStateFolderWhenFree(folder, { withinMs: 600_000, onWait: () => void told++ })

  await expect(waiting).rejects.toThrow(/running already: process 1/)
  expect(told).toBe(0)
})
