import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { loadDeploymentKeys } from '../../runtime/api/keys/deployment-keys.ts'
import type { RunDeps } from '../../runtime/api/runs/deps.ts'
import { launch } from '../../runtime/api/runs/launch/launch.ts'
import { requestAgain } from '../../runtime/api/runs/launch/request.ts'
import { SandboxError } from '../../runtime/kit/errors.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import type { SandboxProvider } from '../../runtime/sandboxes/provider.ts'
import { openStore } from '../../runtime/store/open-store.ts'
import { givenRun } from '../store/rows.ts'

/** Runs a launch up to its claim, which is rejected, to check the stored records and the released resources. */
async function startLaunches(
  collect: () => Promise<void> = async () => undefined,
  {
    folders,
    refusal = new SandboxError('capacity_unavailable', 'no sandbox is to be had'),
  }: {
    readonly folders?: Pick<NonNullable<RunDeps['folders']>, 'prepare'>
    readonly refusal?: SandboxError
  } = {},
) {
  const folder = await mkdtemp(join(tmpdir(), 'aw-launch-'))
  const store = await openStore({ kind: 'sqlite', file: join(folder, 'store.db') }, { log: silentLog })
  onTestFinished(async () => {
    await store.close()
    await rm(folder, { recursive: true })
  })
  const claimed: string[] = []
  const provider: SandboxProvider = {
    name: 'kubernetes',
    namespace: 'sandboxes',
    start: async () => undefined,
    close: async () => undefined,
    pools: () => [],
    draft: (claimName) => ({ claimName }),
    collect,
    async claim({ claimName }) {
      claimed.push(claimName)
      throw refusal
    },
  }
  const keys = await loadDeploymentKeys(join(folder, 'keys'))
  const deps = {
    store,
    provider,
    keys,
    clock: () => new Date(),
    log: silentLog,
    folders,
  } as unknown as RunDeps
  const run = await store.readRun(await givenRun(store, { state: 'starting', holder: 'me' }))
  if (!run) throw new Error('the run is not there')
  return {
    store,
    claimed,
    launch: async () => {
      const request = await requestAgain(deps, run)
      return launch(deps, run, { request, signal: AbortSignal.timeout(120_000) })
    },
  }
}

it('happens once per run generation, even if two callers start it at the same time', async () => {
  const { claimed, launch } = await startLaunches()

  const both = await Promise.allSettled([launch(), launch()])

  const codes = both.map((one) => (one.status === 'rejected' ? one.reason.code : 'launched'))
  expect(codes.sort()).toEqual(['capacity_unavailable', 'conflict'])
  expect(claimed).toHaveLength(1)
})

it('gives its claim back when it fails, and says so in the row', async () => {
  const { store, launch } = await startLaunches()

  await expect(launch()).rejects.toMatchObject({ code: 'capacity_unavailable' })

  expect(await store.listClaims(['requested', 'bound'])).toEqual([])
  expect(await store.listClaims(['released'])).toHaveLength(1)
})

it('keeps the row of a claim that could not be given back, with what finds it again', async () => {
  const { store, launch, claimed } = await startLaunches(() =>
    Promise.reject(new Error('the cluster is away')),
  )

  await expect(launch()).rejects.toMatchObject({ code: 'capacity_unavailable' })

  const [kept] = await store.listClaims(['requested'])
  expect(kept).toMatchObject({ namespace: 'sandboxes', name: claimed[0], handle: { claimName: claimed[0] } })
})

it('loses a sandbox that is not ready in time, so that the run gets another one', async () => {
  const refusal = new SandboxError('deadline_exceeded', 'GET /identity took longer than 5000 ms')
  const { store, launch } = await startLaunches(undefined, { refusal })

  await expect(launch()).rejects.toMatchObject({
    code: 'sandbox_lost',
    message: 'the sandbox was not ready in time: GET /identity took longer than 5000 ms',
  })

  expect(await store.listClaims(['released'])).toHaveLength(1)
})

it('prepares the folder of the run again while the disk is full', async () => {
  let attempts = 0
  const { promise: prepared, resolve } = Promise.withResolvers<void>()
  const prepare = async () => {
    attempts += 1
    if (attempts < 3) throw new SandboxError('unavailable', 'the disk is full')
    resolve()
    return undefined
  }
  const { launch } = await startLaunches(undefined, { folders: { prepare } })

  await expect(launch()).rejects.toMatchObject({ code: 'capacity_unavailable' })
  await prepared

  expect(attempts).toBe(3)
})
