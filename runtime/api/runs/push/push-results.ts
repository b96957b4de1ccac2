import { randomUUID } from 'node:crypto'
import { CommitId } from '../../../../contracts/git-source.ts'
import type { PushedResults } from '../../../../contracts/push.ts'
import type { RunDiff } from '../../../../contracts/results.ts'
import { pushRuleOf } from '../../../../policies/agent/tighten.ts'
import { bestEffort } from '../../../kit/best-effort.ts'
import { SandboxError } from '../../../kit/errors.ts'
import type { RunRow } from '../../../store/store.ts'
import { repositoryOf } from '../admit/git-source.ts'
import { insertPush, type Push, type StartDeps } from '../admit/start-run.ts'
import type { AuditTrail } from '../audit-trail.ts'
import { requireAnotherToPush } from '../gates/four-eyes.ts'
import { refusePush } from '../restrictions/refusals.ts'
import { readDiff, readResult } from '../results/run-results.ts'
import { requireRun } from '../run-view.ts'
import type { Caller, RunService } from '../service.ts'
import type { SandboxUse } from '../use/serving-run.ts'
import { pushFrom } from './push-from-sandbox.ts'

export interface PushParts {
  readonly start: StartDeps
  readonly audit: AuditTrail
  readonly findServing: (caller: Caller, id: string) => Promise<SandboxUse>
  readonly queue: { wake(): void }
  /** Ends the sandbox of a push. */
  readonly lifecycle: { end(caller: Caller, id: string): Promise<void> }
}

/** Pushes of the stored results of runs, which people ask for. Git runs only in a fresh sandbox. */
export function createPushes(parts: PushParts): Pick<RunService, 'pushResults'> {
  const { start, queue, lifecycle, findServing } = parts
  const { store, log } = start.run

  return {
    async pushResults(caller, id, { branch }) {
      const { push, diff } = await admit(parts, caller, { id, branch })
      // The answer of the whole push is kept, and not that of its sandbox.
      const { keep: _keep, ...asker } = caller
      const sandbox = await insertPush(start, asker, push)
      queue.wake()
      try {
        const use = await findServing(asker, sandbox.id).catch((error) =>
          withReason(parts, sandbox.id, error),
        )
        const bundle = await bytesOf(await readResult(store, push.source, 'bundle'))
        const { previous } = await pushFrom(start.run, use, { push, diff, bundle })
          .catch(silentSandbox)
          .finally(() => use.done())
        return await record(parts, caller, { push, previous })
      } finally {
        await bestEffort(log, `end the sandbox of a push ${sandbox.id}`, () =>
          lifecycle.end(asker, sandbox.id),
        )
      }
    },
  }
}

type Asked = { readonly id: string; readonly branch: string }

/** Decides before any sandbox exists. Throws with the reason and the next step. */
async function admit(
  { start: { run: deps, policy } }: PushParts,
  caller: Caller,
  { id, branch }: Asked,
): Promise<{ readonly push: Push; readonly diff: RunDiff }> {
  const { store, restrictions } = deps
  const run = await requireRun(store, caller, id)
  if (!isOfRepository(run))
    throw new SandboxError(
      'conflict',
      `${id} did not start from the URL of a repository, so there is no server to push to. ${elsewhere(run)}`,
    )
  refuseDenied(id, [run.settings, await policy.of(run)])
  refusePush(restrictions.of(run))
  await store.transaction(async (tx) => requireAnotherToPush(tx, run, caller))
  const diff = await readDiff(store, run)
  if (!diff.branch)
    throw new SandboxError(
      'conflict',
      `${id} has nothing to push: ${diff.problems[0] ?? 'it changed nothing that git tracks'}`,
    )
  const { commit } = diff.branch
  const ref = `refs/heads/agentweaver/${id}/${branch}`
  return { push: { source: run, grant: { runId: id, kind: run.kind, ref, commit } }, diff }
}

const isOfRepository = (run: RunRow): run is Push['source'] => run.workspace.kind === 'git'

const elsewhere = ({ id, workspace }: RunRow): string =>
  workspace.kind === 'path'
    ? `Fetch its commits with agentweaver fetch ${id}, and push them from your folder.`
    : `Write its changes into your folder with agentweaver apply ${id}, and push from there.`

function refuseDenied(id: string, all: readonly RunRow['settings'][]): void {
  if (!all.some((settings) => pushRuleOf(settings) === 'deny')) return
  throw new SandboxError(
    'policy_denied',
    `The settings forbid every push of ${id} (results.push: deny). Its commits can be fetched: agentweaver fetch ${id} --repo DIR`,
  )
}

const isLate = (error: unknown): boolean => error instanceof Error && error.name === 'TimeoutError'

/** The sandbox of a push is a separate run, whose failure is the reason. */
async function withReason({ start: { run } }: PushParts, id: string, error: unknown): Promise<never> {
  const failure = (await run.store.readRun(id))?.failure
  if (failure)
    throw new SandboxError(failure.code, `The push had no sandbox: ${failure.message}`, { cause: error })
  if (!isLate(error)) throw error
  throw new SandboxError(
    'capacity_unavailable',
    'No sandbox became free for the push. Try again when another run of the owner has ended.',
    { cause: error },
  )
}

function silentSandbox(error: unknown): never {
  if (!isLate(error)) throw error
  throw new SandboxError(
    'sandbox_lost',
    'The sandbox of the push did not answer in time. Push again: a repeated push changes nothing.',
    { cause: error },
  )
}

async function bytesOf(chunks: AsyncIterable<Uint8Array>): Promise<Buffer> {
  return Buffer.concat(await Array.fromAsync(chunks))
}

type Done = { readonly push: Push; readonly previous: string | undefined }

/** Who pushed what, in the chain of the deployment, because the chain of an ended run is sealed. */
async function record(
  { start: { run: deps }, audit }: PushParts,
  caller: Caller,
  { push: { source, grant }, previous }: Done,
): Promise<PushedResults> {
  const { url } = source.workspace
  const { host, port, path } = repositoryOf({ url })
  const { ref, commit } = grant
  const branch = ref.slice('refs/heads/'.length)
  const answer: PushedResults = { runId: source.id, repository: url, branch, commit: CommitId.parse(commit) }
  await deps.store.transaction(async (tx) => {
    const at = deps.clock().toISOString()
    await tx.recordPushed(source.id, { repository: `${host}:${port}/${path}`, ref, commit, at })
    await audit.append(tx, '', [
      {
        kind: 'results.pushed',
        runId: '',
        callId: `push_${randomUUID().replaceAll('-', '')}`,
        actor: `person:${caller.owner}`,
        tool: 'push',
        params: { runId: source.id, ref, commit, previous },
        policyVersion: source.policyVersion,
        reasons: [source.id, url, branch, `from ${previous ?? 'no commit'}`, `to ${commit}`],
        at,
      },
    ])
    await caller.keep?.(tx, answer)
  })
  return answer
}
