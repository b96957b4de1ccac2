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

it('has only the settings that an AgentHost of an earlier release knows', async () => {
  const settings = SandboxSettings.parse({ ...RUN.settings, require_outcome: true, budgets: { steps: 5 } })
  const { of } = await startDrafts({ ...RUN, settings })

  const { body } = await of(podOf('pod-a'))

  expect(JSON.parse(Buffer.from(body).toString()).governance.settings).toEqual(RUN.settings)
})

async function startDrafts(run = RUN) {
  const folder = mkdtempSync(join(tmpdir(), 'aw-configuration-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const keys = await loadDeploymentKeys(folder)
  const deps = { keys, clock: now } as unknown as RunDeps
  const verify = (ticket: string, instanceId: string) =>
    verifyTicket(ticket, { jwksFile: keys.jwksFile, instanceId, now })
  return {
    ...draftConfigurations(deps, run, {
      generation: 1,
      folder: Promise.resolve(undefined),
      session: Promise.resolve(undefined),
    }),
    verify,
  }
}

const fieldsOf = (body: Uint8Array) => JSON.parse(Buffer.from(body).toString())
const bearerIn = (body: Uint8Array): string => fieldsOf(body).turnBearerToken

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

it('has one digest key for all sandboxes of a run, and another one for another run', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'aw-configuration-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const deps = { keys: await loadDeploymentKeys(folder), clock: now } as unknown as RunDeps
  const keyOf = async (run: RunRow, generation: number, pod: string): Promise<string> => {
    const at = { generation, folder: Promise.resolve(undefined), session: Promise.resolve(undefined) }
    return fieldsOf((await draftConfigurations(deps, run, at).of(podOf(pod))).body).digestKey
  }

  const keys = [await keyOf(RUN, 1, 'pod-a'), await keyOf(RUN, 2, 'pod-b')]
  const other = await keyOf({ ...RUN, id: 'run-2' }, 1, 'pod-a')

  expect(keys[0]).toMatch(/^[A-Za-z0-9_-]{43}$/)
  expect(keys[1]).toBe(keys[0])
  expect(other).not.toBe(keys[0])
})
