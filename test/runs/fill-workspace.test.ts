import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { expect, it, onTestFinished } from 'vitest'
import type { AgentHostClient } from '../../runtime/agent-host-client/client.ts'
import type { RunDeps } from '../../runtime/api/runs/deps.ts'
import { fillWorkspace } from '../../runtime/api/runs/launch/launch.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import type { BoundSandbox } from '../../runtime/sandboxes/provider.ts'
import { openStore } from '../../runtime/store/open-store.ts'
import { givenRun } from '../store/rows.ts'

/** Fills the workspace of a sandbox whose network opens when `opened` is resolved, and lists what happened. */
async function filling(opened: Promise<void>) {
  const folder = mkdtempSync(join(tmpdir(), 'aw-fill-'))
  const store = await openStore({ kind: 'sqlite', file: join(folder, 'store.db') }, { log: silentLog })
  onTestFinished(async () => {
    await store.close()
    rmSync(folder, { recursive: true })
  })
  const id = await givenRun(store, { state: 'starting', workspace: { kind: 'upload' } })
  await store.writeBlob(
    { runId: id, name: 'workspace', maxBytes: 1024 },
    Readable.from([Buffer.from('archive')]),
  )
  const run = await store.readRun(id)
  if (!run) throw new Error('the run is not there')
  const happened: string[] = []
  const sandbox = {
    openNetwork: async () => {
      happened.push('the network is asked for')
      await opened
      happened.push('the network is open')
    },
  }
  const client = { putWorkspace: async () => void happened.push('the files are there') }
  const done = fillWorkspace({ store, log: silentLog } as unknown as RunDeps, run, {
    sandbox: sandbox as unknown as BoundSandbox,
    client: client as unknown as AgentHostClient,
    signal: AbortSignal.timeout(60_000),
  })
  return { happened, done }
}

it('opens the network of a sandbox before the first byte of the workspace is sent', async () => {
  const { happened, done } = await filling(Promise.resolve())

  await done

  expect(happened).toEqual(['the network is asked for', 'the network is open', 'the files are there'])
})

it('sends no file to a sandbox whose network cannot be opened', async () => {
  const refused = Promise.reject(new Error('no proxy'))
  refused.catch(() => undefined)
  const { happened, done } = await filling(refused)

  await expect(done).rejects.toThrow('no proxy')

  expect(happened).toEqual(['the network is asked for'])
})
