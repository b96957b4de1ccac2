import type { RunEvent } from '../../../../contracts/events.ts'
import { CLONE_LIMITS, type ClonedRepository, type CloneLine } from '../../../../contracts/git-source.ts'
import { SETTINGS_FILE } from '../../../../contracts/policy.ts'
import type { AgentHostClient } from '../../../agent-host-client/client.ts'
import { withTimeout } from '../../../kit/deadline.ts'
import { SandboxError } from '../../../kit/errors.ts'
import { present } from '../../../kit/present.ts'
import type { BoundSandbox } from '../../../sandboxes/provider.ts'
import type { RunRow, Transaction } from '../../../store/store.ts'
import { toSettings } from '../admit/settings-file.ts'
import { ignoredNotices } from '../admit/settings-in-force.ts'
import { createAuditTrail } from '../audit-trail.ts'
import type { RunDeps } from '../deps.ts'
import { promote, type SavedParts, saveFiles } from '../drive/checkpoint.ts'
import { whileHeld } from '../held-run.ts'
import { cloneFailure } from './clone-words.ts'

type GitRun = RunRow & { readonly workspace: Extract<RunRow['workspace'], { kind: 'git' }> }
type Progress = Extract<CloneLine, { type: 'progress' }>

export interface CloneInto {
  readonly sandbox: Pick<BoundSandbox, 'isolation'>
  readonly client: AgentHostClient
  readonly signal: AbortSignal
}

/** Longer than the limit of the sandbox itself, whose message is better. */
const TIMEOUT_MS = CLONE_LIMITS.timeoutMs + 60_000
const SAVE_TIMEOUT_MS = 300_000
const PROGRESS_EVERY_MS = 2_000

export const isGitRun = (run: RunRow): run is GitRun => run.workspace.kind === 'git'

/**
 * Clones the repository of a run into its new sandbox, before the first turn. Records the commit as the base of the run,
 * with a checkpoint of the files, so that a later sandbox begins with this checkpoint and not with another clone.
 */
export async function cloneRepository(deps: RunDeps, run: GitRun, into: CloneInto): Promise<void> {
  const { client } = into
  if (!into.sandbox.isolation.enforcesEgress)
    throw new SandboxError(
      'isolation_unavailable',
      'A repository is cloned through the egress proxy, and this sandbox has none, because its commands are not isolated. Run `agentweaver doctor`.',
    )
  const signal = withTimeout(TIMEOUT_MS, into.signal)
  const repository = await follow(deps, run, { client, signal })
  const notices = await noticesOf(run, client, signal)
  const saved = await save(deps, run, { client, signal: withTimeout(SAVE_TIMEOUT_MS, into.signal) })
  await record(deps, run, { repository, notices, saved })
}

type From = { readonly client: AgentHostClient; readonly signal: AbortSignal }

/** Passes progress on as events. Throws `workspace_invalid` if the clone fails. */
async function follow(deps: RunDeps, run: GitRun, { client, signal }: From): Promise<ClonedRepository> {
  const { url, ref, depth, commit } = run.workspace
  const told = new ToldProgress(deps, run)
  for await (const line of client.repository.clone({ url, ...present({ ref, depth, commit }) }, signal)) {
    if (line.type === 'cloned') return line.repository
    if (line.type === 'failed') throw new SandboxError('workspace_invalid', cloneFailure(url, line))
    await told.tell(line)
  }
  signal.throwIfAborted()
  throw new SandboxError('sandbox_lost', 'the sandbox ended during the clone')
}

/** Reports each step once, and its progress every few seconds. */
class ToldProgress {
  readonly #deps: Pick<RunDeps, 'store' | 'redactText'>
  readonly #run: GitRun
  #step = ''
  #at = 0

  constructor(deps: Pick<RunDeps, 'store' | 'redactText'>, run: GitRun) {
    this.#deps = deps
    this.#run = run
  }

  async tell({ step, percent }: Progress): Promise<void> {
    const now = performance.now()
    if (step === this.#step && now - this.#at < PROGRESS_EVERY_MS) return
    this.#step = step
    this.#at = now
    const { store, redactText } = this.#deps
    const { id, workspace } = this.#run
    const data = { url: workspace.url, step: redactText(step), ...present({ ref: workspace.ref, percent }) }
    await whileHeld(store, this.#run, async (tx) => {
      await tx.appendEvents(id, [{ event: { type: 'workspace.cloning', data } }])
    })
  }
}

/** The run has its settings from its request. The file of the repository is only reported. */
async function noticesOf(
  { workspace }: GitRun,
  client: AgentHostClient,
  signal: AbortSignal,
): Promise<RunEvent[]> {
  const { path, maxBytes } = SETTINGS_FILE
  const { result, payload } = await client.file(
    { op: 'read', path, length: maxBytes + 1 },
    new Uint8Array(0),
    signal,
  )
  if (!result.ok && result.code !== 'not_found')
    throw new SandboxError(
      'workspace_invalid',
      `The settings file of the repository cannot be read: ${result.message}`,
    )
  const found = toSettings(result.ok ? payload : undefined, path)
  return ignoredNotices(path, workspace.settings, found.text)
}

/** Without this checkpoint, a later sandbox clones the same commit again. */
async function save(deps: RunDeps, run: GitRun, { client, signal }: From): Promise<SavedParts | undefined> {
  try {
    const files = await saveFiles(deps, run, { client, signal })
    // A fork has the conversation of another run, and its agent has not begun.
    const session = (await deps.store.readCheckpoint(run.id))?.session
    return { ...files, ...present({ session }) }
  } catch (error) {
    signal.throwIfAborted()
    deps.log.warn('the files of a clone could not be saved', { error, runId: run.id })
    return undefined
  }
}

type Cloned = {
  readonly repository: ClonedRepository
  readonly notices: readonly RunEvent[]
  readonly saved: SavedParts | undefined
}

/** The commit, the checkpoint, the events and the audit record, all in one commit of the store. */
async function record(deps: RunDeps, run: GitRun, { repository, notices, saved }: Cloned): Promise<void> {
  const { store, keys, clock } = deps
  const { url, ref } = run.workspace
  const { commit } = repository
  const audit = createAuditTrail(keys)
  let attempts = 0
  await whileHeld(store, run, async (tx: Transaction, current) => {
    attempts += 1
    // An earlier attempt was committed, and its answer was lost.
    if (attempts > 1 && current.workspace.kind === 'git' && current.workspace.commit === commit) return
    const at = clock().toISOString()
    const checkpoint = saved && (await promote(tx, current, { saved, at }))
    await tx.changeRun(run.id, { workspace: { ...run.workspace, commit }, ...checkpoint })
    const data = { url, ...repository, ...present({ ref }) }
    const events: RunEvent[] = [{ type: 'workspace.cloned', data }, ...notices]
    await tx.appendEvents(
      run.id,
      events.map((event) => ({ event })),
    )
    await audit.append(tx, run.id, [
      {
        kind: 'workspace.cloned',
        runId: run.id,
        callId: `clone_${run.generation}_${commit.slice(0, 12)}`,
        actor: 'agentweaver',
        tool: 'clone',
        params: { url, ...present({ ref }) },
        policyVersion: run.policyVersion,
        reasons: [url, ...(ref === undefined ? [] : [`ref ${ref}`]), `commit ${commit}`],
        bytes: repository.bytes,
        at,
      },
    ])
  })
}
