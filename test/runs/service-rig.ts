import { cpSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect } from 'vitest'
import type { PlanStep } from '../../contracts/agents.ts'
import { StartRun, type StartRunInput } from '../../contracts/api.ts'
import type { RunEnvelope, RunEvent, RunEventType } from '../../contracts/events.ts'
import { composeKeys, composeRunService } from '../../runtime/api/compose.ts'
import { deploymentSecrets } from '../../runtime/api/compose-user-credentials.ts'
import { readConfig } from '../../runtime/api/config.ts'
import type { Caller, RunService } from '../../runtime/api/runs/service.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { OwnerRedactors } from '../../runtime/redaction/owner-redactors.ts'
import { openStore, type StoreLocation } from '../../runtime/store/open-store.ts'
import type { Store } from '../../runtime/store/store.ts'
import { bundledHost } from '../helpers/bundled-host.ts'

export const alice: Caller = { owner: 'alice', role: 'user' }
export const bob: Caller = { owner: 'bob', role: 'user' }
export const operator: Caller = { owner: 'root', role: 'operator' }

/**
 * The executor over the embedded store and, unless `env` names a cluster, the local provider: real AgentHosts, real
 * runners, real isolation.
 */
export async function startService(
  env: Record<string, string> = {},
  open: (location: StoreLocation) => Promise<Store> = (location) => openStore(location, { log: silentLog }),
) {
  const folder = mkdtempSync(join(tmpdir(), 'aw-runs-'))
  const workspaces = join(folder, 'workspaces')
  mkdirSync(workspaces)
  const config = readConfig(
    {
      AGENTWEAVER_STATE_DIR: join(folder, 'state'),
      ...(env['AGENTWEAVER_SANDBOXES'] !== 'kubernetes' && {
        AGENTWEAVER_WORKSPACE_ROOTS: workspaces,
        // A sandbox in standby that no run uses costs as much processor time as a run.
        AGENTWEAVER_LOCAL_WARM: '0',
      }),
      AGENTWEAVER_LOG_LEVEL: 'silent',
      AGENTWEAVER_MAX_RUNS_PER_OWNER: '16',
      ...env,
    },
    { home: folder, cwd: folder },
  )
  mkdirSync(config.stateDir, { mode: 0o700 })
  const store = await open(config.store)
  const { keys } = await composeKeys(config)
  const hostEntry = await bundledHost()
  const redactors = new OwnerRedactors(deploymentSecrets(config))
  const around = { store, redactors, log: silentLog, hostEntry }
  const { service, userCredentials } = await composeRunService(config, around, keys)
  await service.hold()
  await service.start()
  let isOpen = true
  const close = async () => {
    if (!isOpen) return
    isOpen = false
    await service.close()
    await store.close()
    rmSync(folder, { recursive: true, force: true })
  }
  const aWorkspace = (name = 'project', from?: string) => {
    const path = join(workspaces, name)
    mkdirSync(path, { recursive: true })
    if (from !== undefined) cpSync(from, path, { recursive: true })
    return path
  }
  return { service, userCredentials, store, config, folder, workspaces, aWorkspace, close }
}

/** One service for a whole test file. Each test has a separate workspace. */
export function useService(env: Record<string, string> = {}) {
  let started: Awaited<ReturnType<typeof startService>> | undefined
  let names = 0
  beforeAll(async () => {
    started = await startService(env)
  })
  afterAll(() => started?.close())
  return () => {
    if (!started) throw new Error('the service is not started')
    const { aWorkspace } = started
    return { ...started, aWorkspace: (from?: string) => aWorkspace(`project-${++names}`, from) }
  }
}

export const tool = (name: string, args: Record<string, unknown>): PlanStep => ({
  kind: 'tool',
  tool: name,
  arguments: args,
})
export const shell = (command: string, more: Record<string, unknown> = {}): PlanStep =>
  tool('run_command', { command, ...more })

export const aRun = (path: string, steps: PlanStep[], change: Partial<StartRunInput> = {}): StartRun =>
  StartRun.parse({
    task: 'do it',
    workspace: { kind: 'path', path },
    agent: { kind: 'scripted', plan: { turns: [steps] } },
    ...change,
  })

/** Follows a run to its end, and calls a function that simulates the user's reactions to its events. */
export async function follow(
  service: RunService,
  id: string,
  react: (event: RunEvent) => unknown = () => undefined,
): Promise<RunEnvelope[]> {
  const seen: RunEnvelope[] = []
  const signal = AbortSignal.timeout(150_000)
  for await (const envelope of (await service.subscribe(alice, id, { after: 0, signal })) ?? []) {
    seen.push(envelope)
    await react(envelope.event)
  }
  expect(seen.at(-1)?.event.type, 'the last event').toBe('done')
  expect(seen.map(({ sequence }) => sequence)).toEqual(seen.map((_, index) => index + 1))
  return seen
}

export const typesOf = (events: readonly RunEnvelope[]): RunEventType[] =>
  events.map(({ event }) => event.type)

type DataOf<T extends RunEventType> = Extract<RunEvent, { type: T }>['data']

export const dataOf = <T extends RunEventType>(events: readonly RunEnvelope[], type: T): DataOf<T>[] =>
  events.flatMap(({ event }) => (event.type === type ? [event.data as DataOf<T>] : []))
