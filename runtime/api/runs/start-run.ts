import type { CreateSandbox, RequestedAgent, Run, StartRun, WorkspaceSource } from '../../../contracts/api.ts'
import type { SandboxSettingsPatch } from '../../../contracts/policy.ts'
import { present } from '../../kit/present.ts'
import type { NewRun, RunRow, Transaction } from '../../store/store.ts'
import { allPlacesTaken, ownPlacesTaken } from './active-runs.ts'
import { resolveAgent } from './agent-config.ts'
import type { RunDeps, RunLimits } from './deps.ts'
import { timeOrderedId } from './ids.ts'
import { UNFINISHED } from './run-view.ts'
import type { SandboxPolicy } from './sandbox-policy.ts'
import type { Caller } from './service.ts'
import { admitWorkspace } from './workspace-admission.ts'

export type RepositorySettingsReader = (workspace: string) => Promise<SandboxSettingsPatch | undefined>

export type StartDeps = {
  readonly run: RunDeps
  readonly policy: SandboxPolicy
  readonly readRepositorySettings: RepositorySettingsReader
}

type Wanted = {
  readonly kind: Run['kind']
  readonly task: string
  readonly agent?: RequestedAgent
  readonly interactive: boolean
  readonly request: Pick<StartRun, 'workspace' | 'policy' | 'labels'>
}

const asksFor = (request: StartRun): Wanted => ({
  kind: 'agent',
  task: request.task,
  agent: request.agent,
  interactive: request.interactive,
  request,
})

const asksForSandbox = (request: CreateSandbox): Wanted => ({
  kind: 'command',
  task: 'sandbox',
  interactive: true,
  request,
})

/** Everything that is decided before a run exists: workspace, settings, agent. Throws what is wrong with the request. */
async function prepare(
  { run: deps, policy, readRepositorySettings }: StartDeps,
  caller: Caller,
  wanted: Wanted,
): Promise<NewRun> {
  const { workspace, policy: requested, labels } = wanted.request
  resolveAgent(wanted.agent, deps.models, caller.owner)
  const folder = workspace.kind === 'path' ? await chooseFolder(deps, workspace, wanted.kind) : undefined
  const repository = folder && (await readRepositorySettings(folder.path))
  const settings = await policy.forRun(repository, requested)
  const { agent } = wanted
  return {
    id: timeOrderedId(wanted.kind === 'agent' ? 'run' : 'sbx', deps.clock()),
    kind: wanted.kind,
    owner: caller.owner,
    state: workspace.kind === 'upload' ? 'awaiting_upload' : 'queued',
    task: wanted.task,
    workspace: folder ?? workspace,
    agent: {
      kind: agent?.kind ?? 'none',
      ...(agent && 'model' in agent && agent.model !== undefined && { model: agent.model }),
    },
    labels: labels ?? {},
    interactive: wanted.interactive,
    agentSpec: agent ?? null,
    settings,
    policyVersion: deps.governance.version(settings),
    keyId: deps.keys.keyId,
    // Whoever gets the upload drives the run.
    ...(workspace.kind !== 'upload' && { holder: deps.holder.id }),
  }
}

/** The folder of a run, and whether the run works on a copy of it. */
async function chooseFolder(
  { folders, workspaces }: RunDeps,
  wanted: Folder,
  kind: Run['kind'],
): Promise<Folder> {
  const path = await admitWorkspace(wanted.path, workspaces)
  const mode = await folders?.chooseMode(path, wanted.mode, kind === 'agent')
  return { kind: 'path', path, ...present({ mode }) }
}

type Folder = Extract<WorkspaceSource, { kind: 'path' }>

/** The limits hold for all processes of the deployment together. */
async function admitAmongAll(
  tx: Transaction,
  owner: string,
  { maxRuns, maxRunsPerOwner }: RunLimits,
): Promise<void> {
  const [all, own] = [
    await tx.countRuns({ states: UNFINISHED }),
    await tx.countRuns({ states: UNFINISHED, owner }),
  ]
  if (all >= maxRuns) throw allPlacesTaken(maxRuns)
  if (own >= maxRunsPerOwner) throw ownPlacesTaken(own, maxRunsPerOwner)
}

/** Writes a run with its first turn and its first event, in one commit. */
async function insert({ run: deps }: StartDeps, run: NewRun): Promise<RunRow> {
  return deps.store.transaction(async (tx) => {
    if (deps.provider.shared) await admitAmongAll(tx, run.owner, deps.limits)
    const row = await tx.insertRun(run)
    if (run.kind === 'agent') {
      const id = timeOrderedId('turn', deps.clock())
      await tx.insertTurn({ id, runId: run.id, state: 'queued', prompt: run.task, final: false })
    }
    await tx.appendEvents(run.id, [{ event: { type: 'run.queued', data: { task: run.task } } }])
    return row
  })
}

export const insertRun = async (deps: StartDeps, caller: Caller, request: StartRun): Promise<RunRow> =>
  insert(deps, await prepare(deps, caller, asksFor(request)))

export const insertSandbox = async (
  deps: StartDeps,
  caller: Caller,
  request: CreateSandbox,
): Promise<RunRow> => insert(deps, await prepare(deps, caller, asksForSandbox(request)))
