import { RequestedAgent } from '../../../../contracts/agents.ts'
import type { CreateSandbox, ForkRun, Run, StartRun, WorkspaceSource } from '../../../../contracts/api.ts'
import type { SandboxSettings, SandboxSettingsPatch } from '../../../../contracts/policy.ts'
import { tighten } from '../../../../policies/agent/tighten.ts'
import { requiresOutcome } from '../../../agents/registry.ts'
import type { AuditDraft } from '../../../audit/chain.ts'
import { SandboxError } from '../../../kit/errors.ts'
import { present } from '../../../kit/present.ts'
import type { NewRun, RunRow, Transaction } from '../../../store/store.ts'
import type { AuditTrail } from '../audit-trail.ts'
import type { RunDeps, RunLimits } from '../deps.ts'
import { recordStart } from '../gates/contributors.ts'
import { timeOrderedId } from '../ids.ts'
import { firstState } from '../machine/next.ts'
import { toRun, WAITING_FOR_PLACE } from '../run-view.ts'
import type { Caller } from '../service.ts'
import { admitAgent } from './admit-agent.ts'
import { admitGitSource, requireReachable } from './git-source.ts'
import {
  beginning,
  copyOrigin,
  firstPrompt,
  lockOrigin,
  type Origin,
  originOf,
  requireOrigin,
  settingsOfOrigin,
} from './origin.ts'
import { repositoryOfFiles, type SandboxPolicy, settingsOfRun } from './sandbox-policy.ts'
import { parseSettings, readSettingsFile } from './settings-file.ts'
import { type SettingsSource, settleSettings } from './settings-in-force.ts'
import { refuseFullStorage } from './storage-limit.ts'
import { admitWorkspace } from './workspace-admission.ts'

export type StartDeps = {
  readonly run: RunDeps
  readonly policy: SandboxPolicy
  readonly audit: AuditTrail
}

type Wanted = {
  readonly kind: Run['kind']
  readonly task: string
  readonly agent?: RequestedAgent
  readonly interactive: boolean
  readonly request: Pick<StartRun, 'workspace' | 'policy' | 'labels' | 'requireOutcome' | 'budgets'>
  /** The run from whose checkpoint the new run begins. */
  readonly origin?: Origin
  /** The run whose result the sandbox pushes. */
  readonly push?: Push
}

/** A push of the result of a run, which belongs to the owner of that run. */
export interface Push {
  readonly source: RunRow & { readonly workspace: Extract<RunRow['workspace'], { kind: 'git' }> }
  readonly grant: NonNullable<RunRow['push']>
}

const asksFor = (request: StartRun): Wanted => ({
  kind: 'agent',
  task: request.task,
  agent: request.agent,
  interactive: request.interactive,
  request,
})

/** A fork has the agent of its origin, because another kind of agent cannot read the session. */
async function asksForFork({ run: { store } }: StartDeps, caller: Caller, fork: Fork): Promise<Wanted> {
  const { id, request } = fork
  const run = await requireOrigin(store, caller, id)
  if (run.kind !== 'agent')
    throw new SandboxError(
      'conflict',
      `${id} is a sandbox without an agent. ${run.workspace.kind === 'path' ? `Start a run on its folder: --workspace ${run.workspace.path}.` : `Start a run on its files: --from ${id}, or the workspace {"kind": "run", "runId": "${id}"}.`}`,
    )
  const workspace = request.workspace ?? { kind: 'run', runId: id }
  return {
    kind: 'agent',
    task: request.task,
    agent: RequestedAgent.parse(run.agentSpec),
    interactive: request.interactive,
    request: { ...request, workspace },
    origin: { run, parts: request.workspace ? ['session'] : ['workspace', 'session'] },
  }
}

export type Fork = { readonly id: string; readonly request: ForkRun }

const asksForSandbox = (request: CreateSandbox): Wanted => ({
  kind: 'command',
  task: 'sandbox',
  interactive: true,
  request,
})

const asksForPush = (push: Push): Wanted => ({
  kind: 'command',
  task: `push ${push.grant.ref}`,
  interactive: true,
  request: { workspace: { kind: 'empty' }, labels: {} },
  push,
})

/** A run before it is written. Its settings depend on the settings in force for its workspace at that moment. */
type Prepared = {
  readonly run: Omit<NewRun, 'settings' | 'policyVersion'>
  readonly policy: SandboxSettings
  readonly settingsSource: SettingsSource
  readonly origin?: Origin
}

/** Decides workspace, policy and agent before the run exists. Throws if the request is invalid. */
async function prepare({ run: deps, policy }: StartDeps, caller: Caller, wanted: Wanted): Promise<Prepared> {
  const { kind, task, interactive, request } = wanted
  const agent = wanted.agent && (await admitAgent(deps, wanted.agent, caller.owner))
  const origin = wanted.origin ?? (await originOfFiles(deps, caller, request.workspace))
  const workspace = withRepository(await admitSource(deps, request.workspace, kind), origin)
  const run = {
    id: timeOrderedId(kind === 'agent' ? 'run' : 'sbx', deps.clock()),
    kind,
    owner: wanted.push?.source.owner ?? caller.owner,
    state: firstState(workspace.kind === 'upload'),
    task,
    workspace,
    agent: {
      kind: agent?.kind ?? 'none',
      ...(agent && 'model' in agent && agent.model !== undefined && { model: agent.model }),
    },
    labels: request.labels ?? {},
    interactive,
    agentSpec: agent ?? null,
    keyId: deps.keys.keyId,
    endsWithService: deps.isTemporary ?? false,
    ...present({ push: wanted.push?.grant }),
  } as const
  const current = await policy.of({ owner: run.owner, workspace })
  return {
    run,
    policy: tighten(current, ...inheritedBy(wanted, origin)),
    settingsSource: await settingsSourceOf(workspace),
    ...present({ origin }),
  }
}

/** A run has at most the settings of the run that it continues, or whose result it pushes. */
function inheritedBy({ push, request }: Wanted, origin: Origin | undefined): SandboxSettingsPatch[] {
  if (push) return [settingsOfOrigin({ run: push.source, parts: [] }, {})]
  return origin ? [settingsOfOrigin(origin, request)] : []
}

async function originOfFiles(
  { store }: RunDeps,
  caller: Caller,
  workspace: WorkspaceSource,
): Promise<Origin | undefined> {
  if (workspace.kind !== 'run') return undefined
  return { run: await requireOrigin(store, caller, workspace.runId), parts: ['workspace'] }
}

/** A run with the files of another one keeps the repository from which they come. */
function withRepository(workspace: WorkspaceSource, origin: Origin | undefined): RunRow['workspace'] {
  const repository = origin && repositoryOfFiles(origin.run.workspace)
  return workspace.kind === 'run' ? { ...workspace, ...present({ repository }) } : workspace
}

async function admitSource(
  { folders, workspaces }: RunDeps,
  source: WorkspaceSource,
  kind: Run['kind'],
): Promise<WorkspaceSource> {
  if (source.kind === 'git') return admitGitSource(source)
  if (source.kind !== 'path') return source
  const path = await admitWorkspace(source.path, workspaces)
  // Whether the run works on the folder itself or on a copy of it.
  const mode = await folders?.chooseMode(path, source.mode, kind === 'agent')
  return { kind: 'path', path, ...present({ mode }) }
}

async function settingsSourceOf(workspace: WorkspaceSource): Promise<SettingsSource> {
  if (workspace.kind === 'path') {
    const { path } = workspace
    return { kind: 'folder', path, content: await readSettingsFile(path) }
  }
  const text = 'settings' in workspace ? workspace.settings : undefined
  return { kind: 'sent', patch: text === undefined ? {} : parseSettings(text, 'workspace.settings') }
}

/** A run waits in the queue until there is a place for it. Only the queue itself is bounded here. */
async function admitToQueue(
  tx: Transaction,
  owner: string,
  { maxQueued, maxQueuedPerOwner }: RunLimits,
): Promise<void> {
  const own = await tx.countRuns({ states: WAITING_FOR_PLACE, owner })
  if (own >= maxQueuedPerOwner) {
    const message = `you have ${own} runs in the queue, the limit is ${maxQueuedPerOwner}; wait until some have started, or cancel some`
    throw new SandboxError('queue_full', message)
  }
  if ((await tx.countRuns({ states: WAITING_FOR_PLACE })) >= maxQueued)
    throw new SandboxError(
      'queue_full',
      `the queue of this deployment has ${maxQueued} runs; try again later`,
    )
}

/** Some settings are separate fields of the request. */
const requestedSettings = ({ policy, requireOutcome, budgets }: Wanted['request']): SandboxSettingsPatch => ({
  ...policy,
  ...present({ require_outcome: requireOutcome, budgets }),
})

/** Settles whether the run must report its outcome: by its request, else by the kind of its agent. */
function settledSettings({ agent, request, origin }: Wanted, settings: SandboxSettings): SandboxSettings {
  if (agent === undefined) return settings
  const isWanted = request.requireOutcome ?? origin?.run.settings.require_outcome ?? requiresOutcome(agent)
  return { ...settings, require_outcome: settings.require_outcome === true || isWanted }
}

/**
 * A run that begins with the files of another run has no setup: an agent may have changed what its commands execute, and the
 * network of the setup may reach more.
 */
function settledSetup(
  { request, push }: Wanted,
  settings: SandboxSettings,
  origin: Origin | undefined,
): SandboxSettings {
  const { setup_commands: commands = [], ...others } = settings
  if (push) return others
  if (origin?.parts.includes('workspace')) {
    if ((request.policy?.setup_commands ?? []).length === 0) return others
    throw new SandboxError(
      'conflict',
      `A run with the files of another run has no setup. Start it without setup_commands, and let the agent run them.`,
    )
  }
  if (commands.length > 0 && !settings.shell_enabled)
    throw new SandboxError(
      'policy_denied',
      'The settings have setup_commands, and turn commands off (shell_enabled: false). Start the run with setup_commands: [] in its policy (--no-setup).',
    )
  return settings
}

/** A suspended run costs no process, but its checkpoint is kept. */
async function admitBesideSuspended(
  tx: Transaction,
  owner: string,
  { maxSuspendedPerOwner: limit }: RunLimits,
): Promise<void> {
  const suspended = await tx.countRuns({ states: ['suspended'], owner })
  if (suspended < limit) return
  const message = `you have ${suspended} suspended runs, the limit is ${limit}; resume or cancel some of them first`
  throw new SandboxError('too_many_runs', message)
}

/** Throws if the sandbox could not reach the repository that it clones, or to which it pushes. */
function requireRepository(
  deps: RunDeps,
  { push }: Wanted,
  { workspace, kind, owner, settings }: Pick<RunRow, 'workspace' | 'kind' | 'owner' | 'settings'>,
): void {
  const source = push?.source.workspace ?? workspace
  if (source.kind !== 'git') return
  const wish = push ? { kind: push.grant.kind, isPush: true } : { kind }
  requireReachable(deps, { ...wish, source, owner, settings })
}

type FirstTurn = { readonly from: RunRow | undefined; readonly id: string }

async function insertFirstTurn(tx: Transaction, run: RunRow, { from, id }: FirstTurn): Promise<void> {
  const prompt = await firstPrompt(tx, run, from)
  await tx.insertTurn({ id, runId: run.id, state: 'queued', prompt, final: false })
}

type Insertion = { readonly caller: Caller; readonly wanted: Wanted; readonly prepared: Prepared }

/** Writes a run with its settings, its first turn and its first events, in one commit. */
async function insert({ run: deps, audit }: StartDeps, insertion: Insertion): Promise<RunRow> {
  const { caller, wanted, prepared } = insertion
  const { run, policy, settingsSource, origin } = prepared
  return deps.store.transaction(async (tx) => {
    // Before the lock of the queue, as in every other transaction that locks a run and then the queue.
    const from = origin && (await lockOrigin(tx, origin))
    await admitToQueue(tx, run.owner, deps.limits)
    await admitBesideSuspended(tx, run.owner, deps.limits)
    const at = deps.clock().toISOString()
    const { patch, notices } = await settleSettings(tx, settingsSource, { owner: run.owner, at })
    const inForce = settingsOfRun(policy, patch, requestedSettings(wanted.request))
    const settings = settledSettings(wanted, settledSetup(wanted, inForce, origin))
    requireRepository(deps, wanted, { ...run, settings })
    const policyVersion = deps.governance.version(settings)
    const source = from && originOf(from, origin.parts)
    const inherited = present({ source, touched: from?.touched, traceparent: caller.traceparent })
    const inserted = await tx.insertRun({ ...run, settings, policyVersion, ...inherited })
    await recordStart(tx, caller, { runId: run.id, at, from })
    const row = from ? await copyOrigin(tx, from, inserted) : inserted
    if (run.kind === 'agent')
      await insertFirstTurn(tx, row, { from, id: timeOrderedId('turn', deps.clock()) })
    const told = { task: run.task, ...present({ source: toRun(row).source }) }
    const events = await tx.appendEvents(
      run.id,
      [{ type: 'run.queued', data: told } as const, ...notices].map((event) => ({ event })),
    )
    await audit.append(tx, run.id, [
      ...(source ? [beginning(row, source, at)] : []),
      ...(wanted.push ? [grantOfPush(row, { push: wanted.push, caller, at })] : []),
    ])
    await caller.keep?.(tx, toRun({ ...row, lastSequence: events.length }))
    return row
  })
}

async function start(deps: StartDeps, caller: Caller, wanted: Wanted): Promise<RunRow> {
  const prepared = await prepare(deps, caller, wanted)
  await refuseFullStorage(deps.run, prepared.run.owner)
  return insert(deps, { caller, wanted, prepared })
}

export const insertRun = (deps: StartDeps, caller: Caller, request: StartRun): Promise<RunRow> =>
  start(deps, caller, asksFor(request))

export const insertSandbox = (deps: StartDeps, caller: Caller, request: CreateSandbox): Promise<RunRow> =>
  start(deps, caller, asksForSandbox(request))

export const insertFork = async (deps: StartDeps, caller: Caller, fork: Fork): Promise<RunRow> =>
  start(deps, caller, await asksForFork(deps, caller, fork))

/** The sandbox that pushes the result of a run. */
export const insertPush = async (deps: StartDeps, caller: Caller, push: Push): Promise<RunRow> =>
  start(deps, caller, asksForPush(push))

type Pushing = { readonly push: Push; readonly caller: Caller; readonly at: string }

/** Before anything acts: who lets the sandbox push what. */
function grantOfPush(
  { id, policyVersion }: RunRow,
  { push: { source, grant }, caller, at }: Pushing,
): AuditDraft {
  return {
    kind: 'outcome',
    runId: id,
    callId: id,
    actor: `person:${caller.owner}`,
    tool: 'push.grant',
    params: grant,
    policyVersion,
    decision: 'allow',
    reasons: [`result of ${source.id}`, source.workspace.url, grant.ref, `commit ${grant.commit}`],
    at,
  }
}
