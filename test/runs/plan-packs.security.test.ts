import { expect, it } from 'vitest'
import type { ManifestEntry } from '../../contracts/workspace-manifest.ts'
import { ManifestRoom } from '../../runtime/api/runs/checkpoints/manifest-room.ts'
import { openStoredWorkspace } from '../../runtime/api/runs/checkpoints/open-workspace.ts'
import { planPacks } from '../../runtime/api/runs/checkpoints/plan-packs.ts'
import { encodeManifest } from '../../runtime/api/runs/checkpoints/stored-manifest.ts'
import type { Store } from '../../runtime/store/store.ts'

const FILE = 'a'.repeat(64)
const CONTENT = 'b'.repeat(64)
const GIBIBYTE = 2 ** 30
const aFile = (size: number): ManifestEntry => ({
  kind: 'file',
  path: 'a',
  mode: 0o644,
  mtime: 1,
  size,
  sha256: FILE,
})
const last = new Map([[FILE, { content: CONTENT, offset: 0, size: GIBIBYTE }]])

it('lets a sandbox send a file again whose size has changed since the last checkpoint', () => {
  expect(planPacks([aFile(GIBIBYTE)], last)).toMatchObject({ kept: last, groups: [] })
  expect(planPacks([aFile(5)], last).groups).toEqual([[{ sha256: FILE, size: 5 }]])
})

it('does not read a content into memory whose manifest has another size for it', async () => {
  const manifest = await encodeManifest(`${JSON.stringify(aFile(5))}\n`, last)
  const read: string[] = []
  const store = {
    readContent: async (_owner: string, sha256: string) => {
      read.push(sha256)
      return (async function* () {
        yield manifest
      })()
    },
  } as unknown as Store
  const workspace = { kind: 'manifest', sha256: 'manifest' } as const

  const opening = { room: new ManifestRoom(), signal: AbortSignal.timeout(600_000), waitMs: 60_000 }
  const archive = await openStoredWorkspace(store, { owner: 'ada', workspace }, opening)

  await expect(Array.fromAsync(archive ?? [])).rejects.toMatchObject({ code: 'workspace_invalid' })
  expect(read).toEqual(['manifest'])
})
