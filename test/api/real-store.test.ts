import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { generateApiKey, hashApiKey } from '../../runtime/api/http/api-key.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { openStore } from '../../runtime/store/open-store.ts'
import { bearer, RUN, startApp } from './harness.ts'

/** The app over the embedded store, which later processes can open again. */
async function startWithStore() {
  const directory = await mkdtemp(join(tmpdir(), 'aw-api-store-'))
  onTestFinished(() => rm(directory, { recursive: true, force: true }))
  const open = () => openStore({ kind: 'sqlite', file: join(directory, 'store.db') }, { log: silentLog })
  const store = await open()
  onTestFinished(() => store.close())
  const key = generateApiKey()
  const createdAt = new Date().toISOString()
  await store.transaction((tx) =>
    tx.insertApiKey({ id: 'key_1', hash: hashApiKey(key), owner: 'ada', role: 'user', createdAt }),
  )
  const harness = startApp({ store, now: () => new Date() })
  const start = (app = harness.app) =>
    app.inject({
      method: 'POST',
      url: '/api/runs',
      headers: { ...bearer(key), 'idempotency-key': 'k1' },
      body: RUN,
    })
  return { ...harness, store, start, open, key }
}

test('a restarted process returns the stored response and does nothing', async () => {
  const { start, open } = await startWithStore()
  const first = await start()
  const store = await open()
  onTestFinished(() => store.close())
  const later = startApp({ store, now: () => new Date() })
  const second = await start(later.app)
  expect(second.json()).toEqual(first.json())
  expect(later.service.calls).toEqual([])
})
