import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { MIGRATIONS } from '../../runtime/store/migrations.ts'
import type { StoreLocation } from '../../runtime/store/open-store.ts'
import { anEvent, givenRun } from './rows.ts'
import { openAt, type StoreUnderTest } from './store-under-test.ts'

const CHILD = fileURLToPath(new URL('./store-child.ts', import.meta.url))

const spawnChild = (mode: string, location: StoreLocation, runId = ''): ChildProcess =>
  spawn(process.execPath, [CHILD, mode, JSON.stringify(location), runId], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })

/** Reads the child's lines until there are `count`, kills it without warning, and reads on to the end. */
async function killAfter(child: ChildProcess, count: number): Promise<string[]> {
  const lines: string[] = []
  for await (const line of createInterface({ input: child.stdout as NonNullable<typeof child.stdout> })) {
    lines.push(line)
    if (lines.length === count) child.kill('SIGKILL')
  }
  return lines
}

export function testProcesses(engine: StoreUnderTest): void {
  describe('processes', () => {
    it('loses no acknowledged write of a killed process, and continues without a gap', async () => {
      const location = await engine.freshLocation()
      const before = await openAt(location)
      const runId = await givenRun(before)
      await before.close()

      const acknowledged = (await killAfter(spawnChild('append', location, runId), 40)).map(Number)

      const after = await openAt(location)
      const next = await after.transaction((tx) => tx.appendEvents(runId, [anEvent('after')]))
      const stored = (await after.readEvents(runId, 0, 100_000)).map(({ sequence }) => sequence)
      await after.close()
      expect(acknowledged.length).toBeGreaterThanOrEqual(40)
      expect(stored).toEqual(stored.map((_, index) => index + 1))
      expect(next[0]?.sequence).toBe(stored.length)
      expect(stored.length).toBeGreaterThan(Math.max(...acknowledged))
    })

    it('opens an empty store from several processes at once', async () => {
      const location = await engine.freshLocation()

      const children = Array.from({ length: 4 }, () => spawnChild('open', location))
      const codes = await Promise.all(children.map(async (child) => (await once(child, 'exit'))[0]))

      expect(codes).toEqual([0, 0, 0, 0])
      expect(await engine.count(location, 'schema_migrations')).toBe(MIGRATIONS.length)
    })

    it('numbers without a gap when a second process appends to the same run', async () => {
      const location = await engine.freshLocation()
      const store = await openAt(location)
      const runId = await givenRun(store)
      const child = spawnChild('append', location, runId)
      const ended = killAfter(child, 30)

      const own: number[] = []
      while (child.signalCode === null && child.exitCode === null) {
        const [stored] = await store.transaction((tx) => tx.appendEvents(runId, [anEvent('ours')]))
        own.push(stored?.sequence ?? 0)
        await new Promise(setImmediate)
      }
      const theirs = (await ended).map(Number)

      const stored = (await store.readEvents(runId, 0, 100_000)).map(({ sequence }) => sequence)
      await store.close()
      expect(stored).toEqual(stored.map((_, index) => index + 1))
      expect(stored).toEqual(expect.arrayContaining([...own, ...theirs]))
      expect(new Set([...own, ...theirs]).size).toBe(own.length + theirs.length)
    })

    it('sees a run and a blob of another process only when they are complete', async () => {
      const location = await engine.freshLocation()
      const store = await openAt(location)
      const runId = await givenRun(store)

      await killAfter(spawnChild('upload', location, runId), 1)

      expect(await store.readBlob(runId, 'workspace')).toBeUndefined()
      expect(await engine.count(location, 'blob_chunks')).toBeGreaterThan(0)
      await store.close()
    })
  })
}
