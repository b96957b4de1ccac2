import { randomUUID } from 'node:crypto'
import { EventEmitter, on } from 'node:events'
import { buffer } from 'node:stream/consumers'
import { type Approval, FINAL_STATES, type Run, type Turn } from '../../contracts/api.ts'
import type { RunEnvelope, RunEvent } from '../../contracts/events.ts'
import { SandboxSettings, type SandboxSettingsPatch } from '../../contracts/policy.ts'
import type { SetRestriction } from '../../contracts/restrictions.ts'
import type { RunDiff } from '../../contracts/results.ts'
import type { AllowEgress } from '../../contracts/run-egress.ts'
import type { FileAnswer } from '../../contracts/toolbox.ts'
import type { FolderQuery, TrustFolder } from '../../contracts/trusted-folders.ts'
import type { Caller, FileRequest, RunService, Subscription } from '../../runtime/api/runs/service.ts'
import { SandboxError } from '../../runtime/kit/errors.ts'
import { auditOf, MemoryRecords } from './memory-audit.ts'
import { EXITED, fileAnswer, pushedTo } from './memory-files.ts'
import { aComparison, aModelList, aRestriction, aRunEgress, MemoryFolders } from './memory-folders.ts'

type Entry = {
  run: Run
  events: RunEnvelope[]
  approvals: Approval[]
  files: Map<string, Uint8Array>
  workspace?: Uint8Array
  changed: EventEmitter
}

const PATCH = Buffer.from('diff --git a/a.txt b/a.txt')

async function* one(bytes: Uint8Array) {
  yield bytes
}

const AT = '2026-01-01T00:00:00.000Z'
const hex = () => randomUUID().replaceAll('-', '')

/**
 * The run service without sandboxes, agents or a store: what HTTP does can be seen on its own. `calls` counts how
 * often each method worked, `fail` makes the next call throw.
 */
export class MemoryService extends MemoryRecords implements RunService {
  readonly runs = new Map<string, Entry>()
  readonly calls: string[] = []
  readonly #folders = new MemoryFolders()
  settings = SandboxSettings.parse({})
  isReady = true
  maxRuns = 100
  closed = false
  #failure: unknown

  fail(error: unknown): void {
    this.#failure = error
  }

  /** Appends events to a run, as its driver would. */
  append(id: string, ...events: RunEvent[]): void {
    const entry = this.#entry(id)
    for (const event of events) {
      const sequence = entry.run.lastSequence + 1
      entry.run = { ...entry.run, lastSequence: sequence }
      if (event.type === 'done') entry.run = { ...entry.run, state: event.data.state }
      entry.events.push({ sequence, at: AT, event })
    }
    entry.changed.emit('events')
  }

  addApproval(id: string, approval: Partial<Approval> = {}): Approval {
    const pending = { requestId: `apr_${hex()}`, runId: id, callId: 'call_1', tool: 'run_command' }
    const full: Approval = { ...pending, state: 'pending', expiresAt: AT, ...approval }
    this.#entry(id).approvals.push(full)
    return full
  }

  /** Events of a command: one line of output between other events, then its exit. */
  commandEvents(commandId: string): RunEvent[] {
    return [
      { type: 'command.output', data: { commandId, stream: 'stdout', chunk: 'hello\n' } },
      { type: 'command.output', data: { commandId: 'cmd_other', stream: 'stdout', chunk: 'not mine\n' } },
      { type: 'command.exited', data: { commandId, result: EXITED } },
    ]
  }

  async hold() {}
  async start() {}
  async close() {
    this.closed = true
  }

  async startRun(caller: Caller, request: Parameters<RunService['startRun']>[1]) {
    this.#begin('startRun')
    if (this.runs.size >= this.maxRuns) throw new SandboxError('queue_full', 'The limit of runs is reached.')
    const { task, workspace, labels = {}, interactive } = request
    const state = workspace.kind === 'upload' ? 'waiting_upload' : 'queued'
    return this.#insert(caller, {
      id: `run_${hex()}`,
      kind: 'agent',
      task,
      workspace,
      labels,
      interactive,
      state,
    })
  }

  async forkRun(caller: Caller, id: string, fork: Parameters<RunService['forkRun']>[2]) {
    this.#visible(caller, id)
    const agent = { kind: 'copilot' } as const
    return this.startRun(caller, { ...fork, workspace: fork.workspace ?? { kind: 'run', runId: id }, agent })
  }

  async createSandbox(caller: Caller, request: Parameters<RunService['createSandbox']>[1]) {
    this.#begin('createSandbox')
    if (this.runs.size >= this.maxRuns) throw new SandboxError('queue_full', 'The limit of runs is reached.')
    const { workspace, labels = {} } = request
    const state = 'waiting'
    return this.#insert(caller, {
      id: `sbx_${hex()}`,
      kind: 'command',
      task: '',
      workspace,
      labels,
      interactive: true,
      state,
    })
  }

  async readRun(caller: Caller, id: string) {
    return this.#visible(caller, id).run
  }

  async listRuns(caller: Caller, query: Parameters<RunService['listRuns']>[1]) {
    const all = [...this.runs.values()].map(({ run }) => run).reverse()
    const mine = all.filter(
      ({ kind, owner }) => kind === query.kind && (caller.role === 'operator' || owner === caller.owner),
    )
    const from = query.after === undefined ? 0 : mine.findIndex(({ id }) => id === query.after) + 1
    const items = mine.slice(from, from + query.limit)
    const last = items.at(-1)
    return { items, ...(last && from + query.limit < mine.length && { next: last.id }) }
  }

  async uploadWorkspace(caller: Caller, id: string, archive: AsyncIterable<Uint8Array>) {
    this.#begin('uploadWorkspace')
    const entry = this.#visible(caller, id)
    if (entry.run.state !== 'waiting_upload')
      throw new SandboxError('conflict', 'The run waits for no upload.')
    entry.workspace = await buffer(archive)
    entry.run = { ...entry.run, state: 'queued' }
    return entry.run
  }

  async downloadWorkspace(caller: Caller, id: string) {
    const { workspace } = this.#visible(caller, id)
    if (!workspace) throw new SandboxError('run_not_ready', 'There is no workspace yet.')
    return (async function* () {
      for (let at = 0; at < workspace.length; at += 1000) yield workspace.subarray(at, at + 1000)
    })()
  }

  async readDiff(caller: Caller, id: string): Promise<RunDiff> {
    this.#visible(caller, id)
    return {
      files: [{ path: 'a.txt', status: 'added', additions: 1, deletions: 0 }],
      fileCount: 1,
      additions: 1,
      deletions: 0,
      patch: { bytes: PATCH.length, isCut: false, isRedacted: false },
      handOff: [],
      hadUncommittedChanges: false,
      problems: [],
    }
  }

  async readPatch(caller: Caller, id: string) {
    this.#visible(caller, id)
    return one(PATCH)
  }

  async readBundle(caller: Caller, id: string) {
    this.#visible(caller, id)
    return one(Buffer.from('# v2 git bundle'))
  }

  pushResults: RunService['pushResults'] = async (caller, id, { branch }) =>
    pushedTo((await this.#touch('pushResults', caller, id)).id, branch)

  async startTurn(caller: Caller, id: string): Promise<Turn> {
    this.#begin('startTurn')
    this.#refuseEnded(this.#visible(caller, id))
    return { id: `turn_${hex()}`, runId: id, state: 'queued' }
  }

  suspend = (caller: Caller, id: string) => this.#touch('suspend', caller, id)
  resume = (caller: Caller, id: string) => this.#touch('resume', caller, id)

  async cancel(caller: Caller, id: string) {
    this.#begin('cancel')
    const entry = this.#visible(caller, id)
    this.#refuseEnded(entry)
    this.append(id, { type: 'done', data: { state: 'cancelled' } })
    return entry.run
  }

  async destroySandbox(caller: Caller, id: string) {
    this.#begin('destroySandbox')
    this.#refuseEnded(this.#visible(caller, id))
    this.append(id, { type: 'done', data: { state: 'succeeded' } })
  }

  async startCommand(caller: Caller, id: string) {
    this.#begin('startCommand')
    const entry = this.#visible(caller, id)
    this.#refuseEnded(entry)
    const started = { commandId: `cmd_${this.calls.length}`, afterSequence: entry.run.lastSequence }
    this.append(id, ...this.commandEvents(started.commandId))
    return started
  }

  async cancelCommand(caller: Caller, id: string, commandId: string) {
    this.#begin('cancelCommand')
    this.#visible(caller, id)
    if (commandId === 'cmd_absent') throw new SandboxError('not_found', 'There is no such command.')
  }

  async file(caller: Caller, id: string, { operation, payload }: FileRequest): Promise<FileAnswer> {
    const { files } = this.#visible(caller, id)
    if (operation.op === 'write' || operation.op === 'delete') this.#begin(`file ${operation.op}`)
    return fileAnswer(files, operation, payload)
  }

  listApprovals = async (caller: Caller, id: string) => ({ items: this.#visible(caller, id).approvals })
  readEgress = async (caller: Caller, id: string) => aRunEgress(this.#visible(caller, id).run)

  async allowEgress(caller: Caller, id: string, { host, reason }: AllowEgress) {
    this.#begin('allowEgress')
    this.#visible(caller, id)
    return { host, reason, by: caller.owner, at: AT }
  }

  async decideShell(caller: Caller, id: string, decision: Parameters<RunService['decideShell']>[2]) {
    this.#begin('decideShell')
    const { requestId, commandHash } = decision
    return this.#decide(caller, id, (approval) =>
      requestId ? approval.requestId === requestId : approval.commandHash === commandHash,
    )(decision.outcome)
  }

  async decideTool(caller: Caller, id: string, decision: Parameters<RunService['decideTool']>[2]) {
    this.#begin('decideTool')
    return this.#decide(caller, id, ({ requestId }) => requestId === decision.requestId)(decision.outcome)
  }

  async answerQuestion(caller: Caller, id: string, reply: { requestId: string; answer: string }) {
    this.#begin('answerQuestion')
    this.#decide(caller, id, ({ requestId }) => requestId === reply.requestId)('approved')
  }

  async readEvents(caller: Caller, id: string, { after, limit }: { after: number; limit: number }) {
    return this.#visible(caller, id).events.slice(after, after + limit)
  }

  async subscribe(caller: Caller, id: string, from: Subscription) {
    const entry = this.#visible(caller, id)
    const hasEnded = (FINAL_STATES as readonly string[]).includes(entry.run.state)
    return hasEnded && from.after >= entry.run.lastSequence ? undefined : follow(entry, from)
  }

  listModels = async () => aModelList

  readPolicy = async () => this.settings

  replacePolicy = (caller: Caller, policy: SandboxSettingsPatch) =>
    this.#writePolicy(caller, policy, 'replacePolicy')

  mergePolicy = (caller: Caller, patch: SandboxSettingsPatch) =>
    this.#writePolicy(caller, { ...this.settings, ...patch }, 'mergePolicy')

  readonly listRestrictions = async () => ({ items: [] })

  async setRestriction(caller: Caller, wanted: SetRestriction) {
    this.#begin('setRestriction')
    if (wanted.scope.kind === 'run') this.#visible(caller, wanted.scope.id)
    return aRestriction(caller, wanted)
  }

  async compareSettings(_caller: Caller, { path }: FolderQuery) {
    return aComparison(path)
  }

  async trustFolder(caller: Caller, folder: TrustFolder) {
    this.#begin('trustFolder')
    return this.#folders.trust(caller, folder)
  }

  async forgetFolder(caller: Caller, { path }: FolderQuery) {
    this.#begin('forgetFolder')
    this.#folders.forget(caller, path)
  }

  listTrustedFolders = async (caller: Caller) => ({ items: this.#folders.list(caller) })

  readRunAudit = async (caller: Caller, id: string) => auditOf(this.#visible(caller, id).run.id)

  async ready() {
    return { ready: this.isReady, checks: [{ name: 'store', ok: this.isReady, detail: 'in memory' }] }
  }

  metrics = async () => '# TYPE agentweaver_runs gauge\nagentweaver_runs 0\n'

  async #touch(name: string, caller: Caller, id: string) {
    this.#begin(name)
    return this.#visible(caller, id).run
  }

  #begin(name: string): void {
    const failure = this.#failure
    this.#failure = undefined
    if (failure !== undefined) throw failure
    this.calls.push(name)
  }

  #insert(
    caller: Caller,
    run: Pick<Run, 'id' | 'kind' | 'task' | 'workspace' | 'labels' | 'interactive' | 'state'>,
  ) {
    const full: Run = {
      ...run,
      owner: caller.owner,
      agent: { kind: run.kind === 'agent' ? 'scripted' : 'none' },
      generation: 1,
      lastSequence: 0,
      createdAt: AT,
    }
    const changed = new EventEmitter().setMaxListeners(0)
    this.runs.set(run.id, { run: full, events: [], approvals: [], files: new Map(), changed })
    return full
  }

  #entry(id: string): Entry {
    const entry = this.runs.get(id)
    if (!entry) throw new SandboxError('not_found', `There is no run ${id}.`)
    return entry
  }

  #visible(caller: Caller, id: string): Entry {
    const entry = this.#entry(id)
    if (caller.role === 'operator' || entry.run.owner === caller.owner) return entry
    throw new SandboxError('not_found', `There is no run ${id}.`)
  }

  #refuseEnded({ run }: Entry): void {
    if ((FINAL_STATES as readonly string[]).includes(run.state)) {
      throw new SandboxError('run_ended', `The run has ended: ${run.state}.`)
    }
  }

  #decide(caller: Caller, id: string, matches: (approval: Approval) => boolean) {
    const { approvals } = this.#visible(caller, id)
    const index = approvals.findIndex(matches)
    const approval = approvals[index]
    if (!approval) throw new SandboxError('not_found', 'There is no such request.')
    if (approval.state !== 'pending') throw new SandboxError('already_decided', `It is ${approval.state}.`)
    return (state: Approval['state']): Approval => {
      const decided = { ...approval, state, decidedBy: caller.owner }
      approvals[index] = decided
      return decided
    }
  }

  async #writePolicy(caller: Caller, policy: SandboxSettingsPatch, name: string): Promise<SandboxSettings> {
    this.#begin(name)
    if (caller.role !== 'operator') throw new SandboxError('forbidden', 'Only operators change the policy.')
    this.settings = SandboxSettings.parse(policy)
    return this.settings
  }
}

/** Pages of two items, so that tests see page boundaries. */
async function* follow(
  { events, changed }: Entry,
  { after, signal }: Subscription,
): AsyncGenerator<RunEnvelope> {
  let cursor = after
  while (!signal.aborted) {
    const page = events.slice(cursor, cursor + 2)
    for (const envelope of page) {
      cursor = envelope.sequence
      yield envelope
      if (envelope.event.type === 'done' || signal.aborted) return
    }
    if (page.length === 0) await changeOf(changed, signal)
  }
}

async function changeOf(changed: EventEmitter, signal: AbortSignal): Promise<void> {
  try {
    for await (const _ of on(changed, 'events', { signal })) return
  } catch (error) {
    if (!signal.aborted) throw error
  }
}
