import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, it, onTestFinished, vi } from 'vitest'
import { SandboxSettings } from '../../contracts/policy.ts'
import { verifyTicket } from '../../runtime/agent-host/configure/ticket.ts'
import { loadDeploymentKeys } from '../../runtime/api/keys/deployment-keys.ts'
import type { RunDeps } from '../../runtime/api/runs/deps.ts'
import { draftConfigurations } from '../../runtime/api/runs/launch/configuration.ts'
import type { RunRow } from '../../runtime/store/store.ts'

const RUN = {
  id: 'run-1',
  owner: 'alice',
  policyVersion: 'v1',
  settings: SandboxSettings.parse({}),
  workspace: { kind: 'empty' },
  agentSpec: { kind: 'scripted', plan: { turns: [[{ kind: 'say', text: 'hello' }]] } },
} as unknown as RunRow
const now = () => new Date()
const podOf = (instanceId: string) => ({ instanceId, workingDirectory: () => '/workspace' })

afterEach(() => void vi.useRealTimers())

async function startDrafts() {
  const folder = mkdtempSync(join(tmpdir(), 'aw-configuration-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const keys = await loadDeploymentKeys(folder)
  const deps = { keys, clock: now } as unknown as RunDeps
  const verify = (ticket: string, instanceId: string) =>
    verifyTicket(ticket, { jwksFile: keys.jwksFile, instanceId, now })
  return { ...draftConfigurations(deps, RUN, { generation: 1, folder: Promise.resolve(undefined) }), verify }
}

const bearerIn = (body: Uint8Array): string => JSON.parse(Buffer.from(body).toString()).turnBearerToken

it('is the one that was made for the sandbox which was foreseen', async () => {
  const { draft, of, verify } = await startDrafts()

  draft(podOf('pod-a'))
  const [first, again] = [of(podOf('pod-a')), of(podOf('pod-a'))]

  expect(again).toBe(first)
  expect(await verify((await first).ticket, 'pod-a')).toMatchObject({ sub: 'run-1', aud: 'pod-a' })
})

it('is never the one that was made for another sandbox', async () => {
  const { draft, of, verify } = await startDrafts()

  draft(podOf('pod-a'))
  const [foreseen, bound] = [await of(podOf('pod-a')), await of(podOf('pod-b'))]

  expect(await verify(bound.ticket, 'pod-b')).toMatchObject({ aud: 'pod-b' })
  await expect(verify(bound.ticket, 'pod-a')).rejects.toMatchObject({ code: 'unauthenticated' })
  expect(bearerIn(bound.body)).not.toBe(bearerIn(foreseen.body))
})

it('is replaced after it has waited for half the lifetime of a ticket', async () => {
  vi.useFakeTimers({ toFake: ['performance'] })
  const { draft, of } = await startDrafts()
  draft(podOf('pod-a'))
  const first = of(podOf('pod-a'))

  vi.advanceTimersByTime(29_000)
  expect(of(podOf('pod-a'))).toBe(first)
  vi.advanceTimersByTime(2_000)

  expect(of(podOf('pod-a'))).not.toBe(first)
})
