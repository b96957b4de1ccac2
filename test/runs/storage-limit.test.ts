import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { refuseFullStorage, storeWithin, writeWithin } from '../../runtime/api/runs/admit/storage-limit.ts'
import type { RunLimits } from '../../runtime/api/runs/deps.ts'
import { openAt } from '../store/store-under-test.ts'

async function* bytes(length: number, value = 1): AsyncGenerator<Uint8Array> {
  yield new Uint8Array(length).fill(value)
}

async function aStoreWith(limit: number) {
  const folder = mkdtempSync(join(tmpdir(), 'aw-storage-'))
  const store = await openAt({ kind: 'sqlite', file: join(folder, 'store.db') })
  onTestFinished(async () => {
    await store.close()
    rmSync(folder, { recursive: true })
  })
  const limits = { maxStoredBytesPerOwner: limit, suspendedRetentionMs: 30 * 86_400_000 } as RunLimits
  return { store, limits }
}

describe('the limit of what one owner stores', () => {
  it('refuses a new run only when nothing is left', async () => {
    const deps = await aStoreWith(10)
    await deps.store.writeContent({ owner: 'ada', maxBytes: 99 }, bytes(9))
    await refuseFullStorage(deps, 'ada')

    await deps.store.writeContent({ owner: 'ada', maxBytes: 99 }, bytes(1))

    await expect(refuseFullStorage(deps, 'ada')).rejects.toMatchObject({
      code: 'storage_full',
      message:
        'a new run could not be saved: your runs store 10 bytes, and the limit is 10. What a run stores is deleted 30 days ' +
        'after its end. Ask an operator for more room (AGENTWEAVER_MAX_STORED_BYTES_PER_OWNER).',
    })
    await refuseFullStorage(deps, 'bob')
  })

  it('counts all contents of a checkpoint, and one that is stored already only once', async () => {
    const deps = await aStoreWith(10)
    const store = await storeWithin(deps, 'ada')
    const write = (length: number, value = 1) =>
      store.writeContent({ owner: 'ada', maxBytes: 99 }, bytes(length, value))

    await write(6)
    await write(4, 2)
    await expect(write(1, 3)).rejects.toMatchObject({ code: 'storage_full' })

    const next = await storeWithin({ ...deps, limits: { ...deps.limits, maxStoredBytesPerOwner: 16 } }, 'ada')
    await next.writeContent({ owner: 'ada', maxBytes: 99 }, bytes(6))
    await next.writeContent({ owner: 'ada', maxBytes: 99 }, bytes(6, 3))
    expect(await deps.store.storedBytes('ada')).toBe(16)
  })

  it('leaves the other limits of a write as they are', async () => {
    const deps = await aStoreWith(1_000)
    const store = await storeWithin(deps, 'ada')

    const tooLarge = store.writeContent({ owner: 'ada', maxBytes: 5 }, bytes(6))

    await expect(tooLarge).rejects.toMatchObject({ code: 'payload_too_large' })
  })

  it('limits an upload to the rest of the storage', async () => {
    const deps = await aStoreWith(10)
    await deps.store.writeContent({ owner: 'ada', maxBytes: 99 }, bytes(4))
    const upload = (length: number) =>
      writeWithin(deps, { owner: 'ada', maxBytes: 99, what: 'the workspace' }, (maxBytes) =>
        deps.store.writeContent({ owner: 'ada', maxBytes }, bytes(length, 2)),
      )

    await expect(upload(7)).rejects.toMatchObject({ code: 'storage_full' })
    await upload(6)
    await expect(upload(1)).rejects.toMatchObject({ code: 'storage_full' })
  })
})
