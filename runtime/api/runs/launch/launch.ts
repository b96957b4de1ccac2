import { setImmediate as nextTurn } from 'node:timers/promises'
import type { RunEvent } from '../../../../contracts/events.ts'
import type { Isolation } from '../../../../contracts/exec.ts'
import type { AgentHostClient } from '../../../agent-host-client/client.ts'
import { bestEffort } from '../../../kit/best-effort.ts'
import { unlessAborted, withTimeout } from '../../../kit/deadline.ts'
import { SandboxError } from '../../../kit/errors.ts'
import { present } from '../../../kit/present.ts'
import type { BoundSandbox, ClaimRequest } from '../../../sandboxes/provider.ts'
import type { RunRow, Transaction, TurnRow } from '../../../store/store.ts'
import { MANIFEST_ROOMS } from '../checkpoints/manifest-room.ts'
import type { RunDeps } from '../deps.ts'
import { patiently } from '../drive/patient-store.ts'
import { whileHeld } from '../held-run.ts'
import type { RunFolder } from '../results/run-folders.ts'
import { cloneRepository, isGitRun } from './clone-repository.ts'
import { clientFor, draftConfigurations } from './configuration.ts'
import type { LaunchedSandbox } from './launched-sandbox.ts'
import { prefaceOf, readUnsaved, type Unsaved } from './preface.ts'
import type { Requested } from './request.ts'
import { openWorkspaceArchive, readSessionArchive } from './restore.ts'
import { whileAlive } from './sandbox-loss.ts'
import { awaitsSetup, beginSetup } from './setup-phase.ts'

const CLAIM_TIMEOUT_MS = 120_000
const CONFIGURE_TIMEOUT_MS = 35_000
const WORKSPACE_TIMEOUT_MS = 600_000
const HEALTH_TIMEOUT_MS = 5_000
/** Characters of a sandbox's own words. */
const MAX_REASON = 300

/**
 * Gets a sandbox for a run: claims it, binds it, configures it and puts the workspace in. Releases the claim if a step
 * fails.
 */
export async function launch(
  deps: RunDeps,
  run: RunRow,
  { request, signal }: { readonly request: Requested; readonly signal: AbortSignal },
): Promise<LaunchedSandbox> {
  const { generation } = request.claim
  // It takes about as long as a sandbox does to come.
  const folder = prepareFolder(deps, run, signal)
  const session = readSessionArchive(deps.store, run)
  session.catch(() => undefined)
  const configurations = draftConfigurations(deps, run, { generation, folder, session })
  let sandbox: BoundSandbox | undefined
  try {
    sandbox = await claimSandbox(deps, run, { ...request, signal, onForeseen: configurations.draft })
    return await prepareSandbox(deps, run, { ...request, sandbox, signal, configurations, folder })
  } catch (error) {
    await giveBack(deps, { ...request, sandbox })
    throw isTooSlow(error) ? neverReady(error) : error
  }
}

const isTooSlow = (error: unknown): error is SandboxError =>
  error instanceof SandboxError && error.code === 'deadline_exceeded'

/** The run gets another sandbox, because a node can be busy for a while. */
const neverReady = (cause: SandboxError) =>
  new SandboxError('sandbox_lost', `the sandbox was not ready in time: ${cause.message}`, { cause })

/**
 * The folder that a run works on; a launch that fails for another reason first does not wait for it. Waits while the disk is
 * full.
 */
function prepareFolder({ folders, log }: RunDeps, run: RunRow, signal: AbortSignal) {
  const patience = { signal, log: log.child({ runId: run.id }) }
  const folder = folders
    ? patiently(() => folders.prepare(run, signal), patience)
    : Promise.resolve(undefined)
  folder.catch(() => undefined)
  return folder
}

type Claiming = Requested & { readonly signal: AbortSignal }

function claimSandbox(
  { store, provider }: RunDeps,
  run: RunRow,
  { claim, handle, signal, onForeseen }: Claiming & Pick<ClaimRequest, 'onForeseen'>,
): Promise<BoundSandbox> {
  return provider.claim({
    claimName: claim.name,
    runId: run.id,
    generation: claim.generation,
    kind: run.kind,
    handle,
    onPosted: (uid) => store.transaction((tx) => tx.changeClaim(claim, { uid })),
    ...present({ onForeseen }),
    signal: withTimeout(CLAIM_TIMEOUT_MS, signal),
  })
}

type Preparing = Claiming & {
  readonly sandbox: BoundSandbox
  readonly folder: Promise<RunFolder | undefined>
  readonly configurations: ReturnType<typeof draftConfigurations>
}

/** No secret leaves before the store has bound this sandbox to this run, and to no other. */
async function prepareSandbox(
  deps: RunDeps,
  run: RunRow,
  { claim, sandbox, signal, configurations, folder }: Preparing,
): Promise<LaunchedSandbox> {
  const { generation } = claim
  const client = clientFor(deps, { id: run.id, generation }, sandbox)
  try {
    // The sandbox may have been asked for its identity. It gets nothing else before the binding is committed.
    const [configuration, { turn, preface }] = await Promise.all([
      configurations.of(sandbox),
      recordBound(deps, run, {
        sandbox,
        claim,
        folder: await folder,
        unsaved: await readUnsaved(deps.store, run),
      }),
    ])
    return await whileAlive({ sandbox, client }, signal, async (alive) => {
      const configuring = client.configure({
        ...configuration,
        signal: withTimeout(CONFIGURE_TIMEOUT_MS, alive),
      })
      const describing = sandbox.isDescribedByHost ? describe(client, sandbox, alive) : undefined
      // An error of the configuration takes precedence over other errors of the sandbox.
      describing?.catch(() => undefined)
      await configuring
      const [selected] = await Promise.all([
        describing,
        fillWorkspace(deps, run, { client, sandbox, signal: alive }),
      ])
      // A connection takes its next request one turn after its answer; before that, two more would be opened.
      await nextTurn()
      const resumes = turn?.state === 'sent' && isContinued(run, turn)
      return { sandbox, client, generation, claim, resumes, ...present({ selected, turn, preface }) }
    })
  } catch (error) {
    await client.close()
    throw error
  }
}

/** Before any code of the run: afterwards a sandbox would not be believed. */
async function describe(client: AgentHostClient, { isolation, health }: BoundSandbox, signal: AbortSignal) {
  const inTime = withTimeout(HEALTH_TIMEOUT_MS, signal)
  const told = health && (await unlessAborted(health, inTime).catch(() => undefined))
  const { isolation: own } = told ?? (await client.health(inTime))
  const reason = own ? `${isolation.reason}; ${own.reason.slice(0, MAX_REASON)}` : isolation.reason
  return { ...isolation, ...present({ shell: own?.shell }), reason }
}

export const selectedEvent = ({ backend, isRealIsolation, shell, reason }: Isolation): RunEvent => ({
  type: 'sandbox.selected',
  data: { backend, isRealIsolation, ...present({ shell }), reason },
})

/** A claim that cannot be given back keeps its row, by which it is collected later. */
async function giveBack(
  { store, provider, log }: RunDeps,
  { claim, handle, sandbox }: Requested & { readonly sandbox: BoundSandbox | undefined },
): Promise<void> {
  await bestEffort(log, `give back the sandbox of claim ${claim.name}`, async () => {
    if (sandbox) await sandbox.release('the launch failed')
    else if (handle !== undefined) await provider.collect(handle)
    await store.transaction((tx) => tx.changeClaim(claim, { state: 'released' }))
  })
}

type Beginning = { readonly turn?: TurnRow | undefined; readonly preface?: string | undefined }

/**
 * The turn that a new sandbox begins with. A turn that the last sandbox did not end is continued if the session was saved
 * in the middle of it; otherwise it is sent again after the preface. The next turn gets a preface too if the conversation
 * lacks the turn before it.
 */
async function firstTurn(tx: Transaction, run: RunRow, unsaved: Unsaved | undefined): Promise<Beginning> {
  const [sent] = await tx.listTurns(run.id, ['sent'])
  if (sent) return { turn: isContinued(run, sent) || !unsaved ? sent : after(prefaceOf(unsaved, true), sent) }
  const [queued] = await tx.listTurns(run.id, ['queued'])
  const preface = unsaved?.turn && prefaceOf(unsaved, false)
  return queued ? { turn: after(preface, queued) } : { preface }
}

/** The turn, as a sandbox gets it after a preface. */
export const after = (preface: string | undefined, turn: TurnRow): TurnRow =>
  preface === undefined ? turn : { ...turn, sentPrompt: `${preface}\n\n${turn.prompt}` }

/** Whether the next sandbox continues this turn, because its session was saved before the turn had ended. */
export const isContinued = ({ carriedCalls, checkpoint }: RunRow, { id }: TurnRow) =>
  carriedCalls.length > 0 && checkpoint?.turnId === id

type Bound = {
  readonly unsaved: Unsaved | undefined
  readonly sandbox: BoundSandbox
  readonly claim: LaunchedSandbox['claim']
  readonly folder: RunFolder | undefined
}

/** Stores the binding and its events in one commit. Returns the turn that the run begins with. */
async function recordBound(
  deps: RunDeps,
  run: RunRow,
  { sandbox, claim, folder, unsaved }: Bound,
): Promise<Beginning> {
  const { isolation, podName, uids, launch: launched, bindMs, claimName: name } = sandbox
  let attempts = 0
  return whileHeld(deps.store, run, async (tx, current) => {
    attempts += 1
    // The process that ended the run may not have informed this driver yet.
    if (current.ending !== undefined) throw new SandboxError('run_ended', `run ${run.id} is to end`)
    const beginning = await firstTurn(tx, run, unsaved)
    // An earlier attempt was committed, and its answer was lost.
    if (attempts > 1 && (await tx.readClaim(claim))?.state === 'bound') return beginning
    const ids = { uid: uids.claim, sandboxUid: uids.sandbox, podUid: uids.pod, handle: sandbox.handle }
    await tx.bindClaim(claim, ids)
    await tx.changeRun(run.id, { sandbox: { name: podName, isolation }, ...beginSetup(deps, run, claim) })
    await tx.appendEvents(run.id, [
      ...(sandbox.isDescribedByHost ? [] : [{ event: selectedEvent(isolation) }]),
      ...warningsFor(run, sandbox).map((data) => ({ event: { type: 'sandbox.warning', data } as const })),
      {
        event: {
          type: 'sandbox.execution_pod.bound',
          data: { podName, podUid: uids.pod, claimName: name, launch: launched, bindMs },
        },
      },
      ...(folder?.events ?? []).map((event) => ({ event })),
    ])
    return beginning
  })
}

/** A weakness is announced to the runs that it can touch: an open network matters where the network is on. */
const warningsFor = (run: RunRow, { warnings }: BoundSandbox) =>
  warnings.filter(({ category }) => category !== 'network-unrestricted' || run.settings.network_enabled)

type Filling = {
  readonly client: AgentHostClient
  readonly sandbox: BoundSandbox
  readonly signal: AbortSignal
}

/** Opens the network and puts the files in. A repository is cloned over the network. */
export async function fillWorkspace(deps: RunDeps, run: RunRow, filling: Filling): Promise<void> {
  const { sandbox, client } = filling
  if (awaitsSetup(run)) await deps.networks?.changed(run.id)
  // The destinations are in force before the first byte of the workspace is there.
  await sandbox.openNetwork?.(client)
  if (await putWorkspace(deps, run, filling)) return
  if (isGitRun(run)) return cloneRepository(deps, run, filling)
  throw new SandboxError('workspace_invalid', 'the workspace of the run is not in the store')
}

/** Puts in the files that the store has. False if the files are still missing. */
async function putWorkspace(
  { store }: RunDeps,
  run: RunRow,
  to: { client: AgentHostClient; signal: AbortSignal },
): Promise<boolean> {
  if (run.workspace.kind === 'path') return true
  const signal = withTimeout(WORKSPACE_TIMEOUT_MS, to.signal)
  const room = MANIFEST_ROOMS.restoring
  const archive = await openWorkspaceArchive(store, run, { room, signal, waitMs: WORKSPACE_TIMEOUT_MS })
  if (archive) await to.client.putWorkspace(archive, signal)
  return archive !== undefined || run.workspace.kind === 'empty'
}
