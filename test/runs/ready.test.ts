import { expect, it } from 'vitest'
import { createRunReads } from '../../runtime/api/runs/reads/run-reads.ts'
import type { SandboxProvider } from '../../runtime/sandboxes/provider.ts'
import type { Store } from '../../runtime/store/store.ts'

const reads = (store: Partial<Store>, provider: Partial<SandboxProvider>) =>
  createRunReads(
    { store: store as Store, provider: provider as SandboxProvider, views: undefined as never },
    () => Promise.reject(new Error('nothing is served here')),
  )
const answers: Partial<Store> = { engine: 'sqlite', ping: async () => undefined }
const stuck = { name: 'watch of claims', ok: false, detail: 'last data 200 s ago' }

it('is ready if the store responds and the provider has no checks', async () => {
  expect(await reads(answers, {}).ready()).toEqual({
    ready: true,
    checks: [{ name: 'store', ok: true, detail: 'sqlite' }],
  })
})

it('is not ready while any part of the provider is not, and says which', async () => {
  const { ready, checks } = await reads(answers, { checks: () => [stuck] }).ready()

  expect(ready).toBe(false)
  expect(checks).toContainEqual(stuck)
})

it('is not ready without its store, however well the provider is', async () => {
  const ping = async () => {
    throw new Error('no connection')
  }

  expect(await reads({ ...answers, ping }, { checks: () => [{ ...stuck, ok: true }] }).ready()).toMatchObject(
    {
      ready: false,
      checks: [{ name: 'store', ok: false, detail: 'no connection' }, { ok: true }],
    },
  )
})
