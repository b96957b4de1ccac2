import { describe, expect, it, onTestFinished } from 'vitest'
import { patientStore } from '../../runtime/api/runs/drive/patient-store.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { openStore } from '../../runtime/store/open-store.ts'
import type { Store } from '../../runtime/store/store.ts'
import { createDatabase, requestPostgres } from '../helpers/postgres.ts'
import { givenRun } from '../store/rows.ts'
import { proxyTo } from '../store/silent-proxy.ts'

const postgres = await requestPostgres()
const serverUrl = 'url' in postgres ? postgres.url : ''

const MIB = 1_048_576
const BYTES = Buffer.alloc(3 * MIB, 'checkpoint ')
async function* bytes() {
  yield BYTES
}

/** A store whose database can be away, and how a driver of a run reads from it. */
async function aStore() {
  const proxy = await proxyTo(await createDatabase(serverUrl))
  const store = await openStore({ kind: 'postgres', url: proxy.url }, { log: silentLog })
  onTestFinished(async () => {
    await store.close()
    await proxy[Symbol.asyncDispose]()
  })
  const retried = Promise.withResolvers<void>()
  const given = new AbortController()
  onTestFinished(() => given.abort())
  const patience = { signal: given.signal, log: silentLog, onRetry: () => retried.resolve() }
  return { store, proxy, patient: patientStore(store, patience), retried: retried.promise }
}

/** Reads two chunks, and the database is away between them. */
async function readAcross(
  { proxy, retried }: Awaited<ReturnType<typeof aStore>>,
  chunks: AsyncIterable<Uint8Array>,
): Promise<Buffer> {
  const iterator = chunks[Symbol.asyncIterator]()
  const first = await iterator.next()
  await proxy.refuse()
  const second = iterator.next()
  await Promise.race([retried, second.catch(() => undefined)])
  await proxy.accept()
  const rest = { [Symbol.asyncIterator]: () => iterator }
  return Buffer.concat([first.value, (await second).value, ...(await Array.fromAsync(rest))])
}

const KINDS = {
  content: async (store: Store) => {
    const { sha256 } = await store.writeContent({ owner: 'alice', maxBytes: 4 * MIB }, bytes())
    return (reader: Store) => reader.readContent('alice', sha256)
  },
  'range of a content': async (store: Store) => {
    const { sha256 } = await store.writeContent({ owner: 'alice', maxBytes: 4 * MIB }, bytes())
    return (reader: Store) => reader.readContent('alice', sha256, { range: { start: 0, length: 3 * MIB } })
  },
  upload: async (store: Store) => {
    const runId = await givenRun(store, { state: 'starting' })
    await store.writeBlob({ runId, name: 'workspace', maxBytes: 4 * MIB }, bytes())
    return async (reader: Store) => {
      const blob = await reader.readBlob(runId, 'workspace')
      if (!blob) throw new Error('the blob is not there')
      return blob.chunks
    }
  },
} as const

describe.skipIf(!serverUrl).each(Object.keys(KINDS) as (keyof typeof KINDS)[])('a %s', (kind) => {
  it('is read to its end by the driver of a run, although the database is away in the middle', async () => {
    const given = await aStore()
    const open = await KINDS[kind](given.store)

    const read = await readAcross(given, await open(given.patient))

    expect(read.equals(BYTES)).toBe(true)
  })

  it('fails with `unavailable` for every other reader', async () => {
    const given = await aStore()
    const open = await KINDS[kind](given.store)

    const read = readAcross(given, await open(given.store))

    await expect(read).rejects.toMatchObject({ code: 'unavailable' })
  })
})
