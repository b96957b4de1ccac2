import { pack } from 'tar-stream'
import { CommitId } from '../../../../contracts/git-source.ts'
import { PUSH_LIMITS } from '../../../../contracts/push.ts'
import type { RunDiff } from '../../../../contracts/results.ts'
import { branchRef } from '../../../git/branch.ts'
import type { MadeDiff } from '../../../git/results.ts'
import { withTimeout } from '../../../kit/deadline.ts'
import { messageOf, SandboxError } from '../../../kit/errors.ts'
import { present } from '../../../kit/present.ts'
import type { RunRow } from '../../../store/store.ts'
import type { Push } from '../admit/start-run.ts'
import type { RunDeps } from '../deps.ts'
import { readParts } from '../results/read-parts.ts'
import { COMPARED_BYTES, changesIn } from '../results/repository-results.ts'
import { readResult, redactedPatch, shownFiles } from '../results/run-results.ts'
import type { SandboxUse } from '../use/serving-run.ts'

export interface Pushing {
  readonly push: Push
  /** What people saw. */
  readonly diff: RunDiff
  readonly bundle: Buffer
}

/** Longer than the limit of the sandbox itself, whose message is better. */
const TIMEOUT_MS = PUSH_LIMITS.timeoutMs + 30_000
const UPLOAD_TIMEOUT_MS = 120_000
const MAX_SHOWN = 5

type Deps = Pick<RunDeps, 'store' | 'redactResult'>

/** Pushes from a fresh sandbox, after it has compared the commits with the diff that the service stored. */
export async function pushFrom(
  deps: Deps,
  { client }: Pick<SandboxUse, 'client'>,
  { push, diff, bundle }: Pushing,
): Promise<{ readonly previous: string | undefined }> {
  const { source, grant } = push
  const { url, commit: base = '', depth } = source.workspace
  const commit = CommitId.parse(grant.commit)
  const opening = {
    url,
    base: CommitId.parse(base),
    result: branchRef(source.id),
    commit,
    ...present({ depth }),
  }
  await client.putWorkspace(archiveOf(bundle), withTimeout(UPLOAD_TIMEOUT_MS))
  const changes = await preparing(grant.ref, async () =>
    readParts(await client.repository.openPush(opening, withTimeout(TIMEOUT_MS)), COMPARED_BYTES),
  )
  await requireSame(deps, source, { shown: diff, pushed: changesIn(changes) })
  const sent = await client.repository.sendPush({ commit, ref: grant.ref }, withTimeout(TIMEOUT_MS))
  if (sent.type === 'failed') throw failed(grant.ref, sent.message)
  return { previous: sent.previous }
}

const failed = (ref: string, why: string, cause?: unknown) =>
  new SandboxError('conflict', `The push to ${ref.slice('refs/heads/'.length)} failed: ${why}`, { cause })

async function preparing<T>(ref: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    const isOfGit = error instanceof SandboxError && error.code === 'workspace_invalid'
    throw isOfGit ? failed(ref, messageOf(error), error) : error
  }
}

async function* archiveOf(bundle: Buffer): AsyncGenerator<Uint8Array> {
  const archive = pack()
  archive.entry({ name: PUSH_LIMITS.bundle, mode: 0o600 }, bundle)
  archive.finalize()
  yield* archive as AsyncIterable<Uint8Array>
}

type Compared = { readonly shown: RunDiff; readonly pushed: MadeDiff }

/**
 * The diff and the commits come from the sandbox of the run, which could have reported two different results. The fresh
 * sandbox makes the diff of the commits again, and both must be equal as people see them.
 */
async function requireSame(
  { store, redactResult }: Deps,
  run: RunRow,
  { shown, pushed }: Compared,
): Promise<void> {
  const redact = (text: string) => redactResult(text, run)
  const files = shownFiles(pushed.files, redact)
  const names = differing(shown.files, files)
  const stored = Buffer.concat(await Array.fromAsync(await readResult(store, run, 'patch')))
  const isSame =
    names.length === 0 &&
    shown.fileCount === pushed.files.length &&
    stored.equals(redactedPatch({ diff: pushed }, redact).bytes)
  if (isSame) return
  const listed = names.slice(0, MAX_SHOWN).map((name) => JSON.stringify(name))
  const where = listed.length === 0 ? 'in the content of files' : `in ${listed.join(', ')}`
  throw new SandboxError(
    'conflict',
    `The commits of ${run.id} differ from its diff ${where}. Nothing was pushed. The run may have committed files that git ignores. Review the commits and push them from your clone: agentweaver fetch ${run.id} --repo DIR`,
  )
}

function differing(shown: RunDiff['files'], pushed: RunDiff['files']): string[] {
  const lineOf = (file: RunDiff['files'][number]) => JSON.stringify(file, Object.keys(file).sort())
  const [before, after] = [shown, pushed].map(
    (files) => new Map(files.map((file) => [lineOf(file), file.path])),
  )
  const only = (one = new Map<string, string>(), other = new Map<string, string>()) =>
    [...one].flatMap(([line, path]) => (other.has(line) ? [] : [path]))
  return [...new Set([...only(before, after), ...only(after, before)])]
}
