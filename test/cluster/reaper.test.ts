import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { createAuditTrail } from '../../runtime/api/runs/audit-trail.ts'
import type { RunDeps } from '../../runtime/api/runs/deps.ts'
import { timeOrderedId } from '../../runtime/api/runs/ids.ts'
import { ReaperFigures, reap } from '../../runtime/api/runs/replicas/reaper.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import type { KubernetesProvider } from '../../runtime/sandboxes/kubernetes/kubernetes-provider.ts'
import { openStore } from '../../runtime/store/open-store.ts'
import { verifyChain } from '../audit/verify-chain.ts'
import { aRun } from '../store/rows.ts'
import { describeWith } from './helpers/features.ts'
import { claimWith, useProviderSpace } from './helpers/provider-space.ts'

const KEY = { keyId: 'k1', key: new Uint8Array(32) }

async function aStore() {
  const folder = mkdtempSync(join(tmpdir(), 'aw-reaper-'))
  const store = await openStore({ kind: 'sqlite', file: join(folder, 'store.db') }, { log: silentLog })
  onTestFinished(async () => {
    await store.close()
    rmSync(folder, { recursive: true })
  })
  return store
}

type Store = Awaited<ReturnType<typeof aStore>>

/** Creates a claim with its row and run, as a service does in a launch. */
async function aLaunched(
  store: Store,
  provider: KubernetesProvider,
  over: { readonly generation?: number } = {},
) {
  const { generation = 1 } = over
  const runId = timeOrderedId('run', new Date())
  const claimName = `agent-${randomUUID().replaceAll('-', '')}`
  const handle = provider.draft(claimName)
  const claim = { namespace: provider.namespace, name: claimName, generation }
  await store.transaction(async (tx) => {
    await tx.insertRun(aRun({ id: runId, agent: { kind: 'none' }, agentSpec: null, keyId: KEY.keyId }))
    await tx.changeRunState(runId, { from: 'queued', to: 'starting' }, { generation })
    const createdAt = new Date().toISOString()
    await tx.upsertClaim({ ...claim, runId, keyId: KEY.keyId, state: 'requested', createdAt, handle })
  })
  const onPosted = (uid: string) => store.transaction((tx) => tx.changeClaim(claim, { uid }))
  const sandbox = await claimWith(provider, { claimName, runId, generation, handle, onPosted })
  return { runId, claimName, sandbox }
}

describeWith(['agent-sandbox'], 'the reaper', () => {
  const space = useProviderSpace('reaped')

  async function aReaper(pool: string, graceMs = -60_000) {
    const store = await aStore()
    const provider = await space.startProvider(pool)
    const deps = { store, clock: () => new Date(), log: silentLog } as RunDeps
    const audit = createAuditTrail({ keyId: KEY.keyId, derive: () => KEY.key } as never)
    const timing = { everyMs: 1_000, graceMs }
    const figures = new ReaperFigures()
    const { claims } = provider
    /** Waits until the watch reports a claim that another client created. */
    const shown = (name: string) =>
      space.eventually(`${name} to be known`, async () =>
        (await claims.list()).find((claim) => claim.name === name),
      )
    return {
      store,
      provider,
      shown,
      figures,
      reap: async () => (await reap(deps, { claims, audit, timing, figures })).map(({ name }) => name),
    }
  }
  const isThere = async (plural: string, name: string) =>
    (await space.client.find(space.path(plural, name))) !== undefined

  it('deletes claims, Sandboxes and pods of a service that lost its database', async () => {
    await space.fillPool('orphans', 2)
    const dead = await space.startProvider('orphans')
    const orphans = [await claimWith(dead), await claimWith(dead)]
    await dead.close()
    const { reap: look, shown, store, figures } = await aReaper('orphans')
    for (const { claimName } of orphans) await shown(claimName)

    const reaped = await look()

    expect(reaped.sort()).toEqual(orphans.map(({ claimName }) => claimName).sort())
    expect(figures.reaped).toBe(2)
    for (const { claimName, podName } of orphans) {
      expect(await isThere('sandboxclaims', claimName)).toBe(false)
      expect(await isThere('sandboxes', podName)).toBe(false)
      expect(await isThere('pods', podName)).toBe(false)
    }
    const { items } = await store.readAudit({ runId: '', limit: 10 })
    expect(items.map(({ tool }) => tool)).toEqual(['sandbox.reap', 'sandbox.reap'])
    const head = await store.transaction((tx) => tx.auditHead(''))
    expect(verifyChain(items, head, [KEY])).toEqual({ ok: true })
  })

  it('keeps claims of live runs, of other deployments, and young claims', async () => {
    await space.fillPool('living', 3)
    const { reap: look, store, provider, shown, figures } = await aReaper('living')
    const alive = await aLaunched(store, provider)
    const foreign = await space.startProvider('living', { deploymentId: 'another' })
    const other = await claimWith(foreign)
    const young = await aReaper('living', 300_000)
    const orphan = await claimWith(provider)
    await young.shown(orphan.claimName)
    await shown(alive.claimName)

    const whileYoung = await young.reap()
    const reaped = await look()

    expect(whileYoung).toEqual([])
    expect([young.figures.reaped, figures.reaped]).toEqual([0, 1])
    expect(reaped).toEqual([orphan.claimName])
    for (const { claimName } of [alive, other]) expect(await isThere('sandboxclaims', claimName)).toBe(true)
    await other.release('test')
    await alive.sandbox.release('test')
  })

  it('deletes the claim of an ended run, and a claim that a newer one has replaced', async () => {
    await space.fillPool('ended', 2)
    const { reap: look, store, provider } = await aReaper('ended')
    const ended = await aLaunched(store, provider)
    const followed = await aLaunched(store, provider)
    expect(await look()).toEqual([])
    await store.transaction(async (tx) => {
      const endedAt = new Date().toISOString()
      await tx.changeRunState(ended.runId, { from: 'starting', to: 'failed' }, { endedAt })
      await tx.changeRun(followed.runId, { generation: 2 })
    })

    const reaped = await look()

    expect(reaped.sort()).toEqual([ended.claimName, followed.claimName].sort())
    expect(await store.listClaims(['requested', 'bound'])).toEqual([])
  })
})
