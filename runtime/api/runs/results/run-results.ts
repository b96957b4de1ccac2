import { createHash } from 'node:crypto'
import type { RunEvent } from '../../../../contracts/events.ts'
import { RESULTS_LIMITS, RunDiff } from '../../../../contracts/results.ts'
import { handOffKind } from '../../../../policies/agent/hand-off.ts'
import { branchRef } from '../../../git/branch.ts'
import type { Conclusion } from '../../../git/conclude-folder.ts'
import type { MadeDiff } from '../../../git/results.ts'
import { SandboxError } from '../../../kit/errors.ts'
import { present } from '../../../kit/present.ts'
import type { RunRow, Store } from '../../../store/store.ts'

export interface RunResultsDeps {
  readonly store: Store
  /** Hides secrets in text that a run wrote. */
  readonly redact: (text: string, run: RunResults['run']) => string
}

export interface RunResults {
  readonly run: Pick<RunRow, 'id' | 'owner' | 'settings'>
  readonly conclusion: Conclusion
  /** Where the copy is kept, because its results could not be made. */
  readonly keptAt?: string
}

const MAX_DIFF_BYTES = 16_777_216
const MAX_PROBLEMS = 16
/** Folders whose files are installed or built, where each is full of names that look like a project's own. */
const INSTALLED = /(?:^|\/)(?:node_modules|\.venv|venv|__pycache__|\.tox|target|dist|build|out)\//

/** Stores the results of a run and reports them in events, hand-off files first. */
export async function storeResults(deps: RunResultsDeps, results: RunResults): Promise<RunEvent[]> {
  const { store } = deps
  const { run, conclusion, keptAt } = results
  const redact = (text: string) => deps.redact(text, run)
  const patch = redactedPatch(conclusion, redact)
  const diff = diffOf(run.id, conclusion, { patch, redact })
  if (conclusion.diff) await write(store, run.id, { name: 'patch', bytes: patch.bytes })
  if (conclusion.branch) await write(store, run.id, { name: 'bundle', bytes: conclusion.branch.bundle })
  await write(store, run.id, { name: 'diff', bytes: Buffer.from(JSON.stringify(diff)) })
  return eventsOf(diff, keptAt)
}

type Patch = { readonly bytes: Buffer; readonly isRedacted: boolean }

/** The files of a diff as people see them. */
export const shownFiles = (files: MadeDiff['files'], redact: (text: string) => string): RunDiff['files'] =>
  files.slice(0, RESULTS_LIMITS.maxFiles).map((file) => ({
    ...file,
    path: redact(file.path),
    ...(file.from !== undefined && { from: redact(file.from) }),
  }))

/** Compared byte by byte, so that text in any encoding stays unchanged. */
export function redactedPatch({ diff }: Pick<Conclusion, 'diff'>, redact: (text: string) => string): Patch {
  const before = diff?.patch.toString('latin1') ?? ''
  const after = redact(before)
  return { bytes: Buffer.from(after, 'latin1'), isRedacted: before !== after }
}

function diffOf(
  runId: string,
  { diff, branch, ignored, written, hadUncommittedChanges, problems }: Conclusion,
  { patch, redact }: { readonly patch: Patch; readonly redact: (text: string) => string },
): RunDiff {
  const files = shownFiles(diff?.files ?? [], redact)
  const handOff = written
    .filter((path) => !INSTALLED.test(path))
    .flatMap((path) => {
      const kind = handOffKind(path)
      return kind === undefined ? [] : [{ path: redact(path), kind }]
    })
  return {
    files,
    fileCount: diff?.files.length ?? 0,
    additions: sum((diff?.files ?? []).map(({ additions = 0 }) => additions)),
    deletions: sum((diff?.files ?? []).map(({ deletions = 0 }) => deletions)),
    patch: { bytes: patch.bytes.length, isCut: diff?.isCut ?? false, isRedacted: patch.isRedacted },
    ...(ignored && {
      ignored: { count: ignored.length, paths: ignored.slice(0, RESULTS_LIMITS.maxIgnored).map(redact) },
    }),
    handOff: handOff.slice(0, RESULTS_LIMITS.maxFiles),
    ...(branch && {
      branch: {
        ref: branchRef(runId),
        commit: branch.tip,
        commits: branch.commits,
        bytes: branch.bundle.length,
        sha256: createHash('sha256').update(branch.bundle).digest('hex'),
        otherBranches: branch.otherBranches.map(redact),
      },
    }),
    hadUncommittedChanges,
    problems: problems.slice(0, MAX_PROBLEMS).map(redact),
  }
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0)

function eventsOf(diff: RunDiff, keptAt: string | undefined): RunEvent[] {
  const { handOff, problems, ignored, branch, fileCount, additions, deletions } = diff
  const handOffs = handOff
    .slice(0, RESULTS_LIMITS.maxHandOffEvents)
    .map((data): RunEvent => ({ type: 'workspace.handoff', data }))
  return [
    ...handOffs,
    {
      type: 'workspace.results',
      data: {
        files: fileCount,
        additions,
        deletions,
        ignored: ignored?.count ?? 0,
        handOff: handOff.length,
        hasBranch: branch !== undefined,
        problems,
        ...present({ keptAt }),
      },
    },
  ]
}

async function write(
  store: Store,
  runId: string,
  { name, bytes }: { readonly name: 'diff' | 'patch' | 'bundle'; readonly bytes: Uint8Array },
): Promise<void> {
  const maxBytes = {
    diff: MAX_DIFF_BYTES,
    patch: 2 * RESULTS_LIMITS.maxPatchBytes,
    bundle: RESULTS_LIMITS.maxBundleBytes,
  }
  await store.writeBlob({ runId, name, maxBytes: maxBytes[name] }, oneChunk(bytes))
}

async function* oneChunk(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes
}

/** The stored results of a run. `not_found` with a reason if it has none. */
export async function readResult(
  store: Store,
  run: RunRow,
  name: 'diff' | 'patch' | 'bundle',
): Promise<AsyncIterable<Uint8Array>> {
  const blob = await store.readBlob(run.id, name)
  if (blob) return blob.chunks
  throw await whyNone(store, run, name)
}

export async function readDiff(store: Store, run: RunRow): Promise<RunDiff> {
  const chunks: Uint8Array[] = []
  for await (const chunk of await readResult(store, run, 'diff')) chunks.push(chunk)
  return RunDiff.parse(JSON.parse(Buffer.concat(chunks).toString('utf8')))
}

const WITH_DIFF: ReadonlySet<string> = new Set(['path', 'git', 'upload'])

async function whyNone(store: Store, run: RunRow, name: string): Promise<SandboxError> {
  if (!WITH_DIFF.has(run.workspace.kind))
    return new SandboxError(
      'not_found',
      `run ${run.id} has no diff: it works neither on a folder nor on a repository. Its workspace can be downloaded`,
    )
  if (run.endedAt === undefined)
    return new SandboxError(
      'run_not_ready',
      `the diff of run ${run.id} is made when it ends; it is ${run.state}`,
    )
  const diff = name === 'diff' ? undefined : await readDiff(store, run).catch(() => undefined)
  const why = diff?.problems[0] ?? (name === 'bundle' ? 'it changed nothing that git tracks' : whyNoDiff(run))
  return new SandboxError('not_found', `run ${run.id} has no ${name}: ${why}`)
}

const whyNoDiff = ({ workspace }: RunRow): string => {
  if (workspace.kind !== 'git') return 'it was never launched'
  return workspace.commit === undefined
    ? 'its repository was not cloned'
    : 'it ended without a sandbox that could make it. Its workspace can be downloaded'
}
