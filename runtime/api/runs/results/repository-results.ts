import type { RunEvent } from '../../../../contracts/events.ts'
import { CHANGES_LIMITS, CommitId } from '../../../../contracts/git-source.ts'
import type { AgentHostClient } from '../../../agent-host-client/client.ts'
import { branchRef, type MadeBranch, otherBranches } from '../../../git/branch.ts'
import type { Conclusion } from '../../../git/conclude-folder.ts'
import { type MadeDiff, statsOf, toText } from '../../../git/results.ts'
import { withTimeout } from '../../../kit/deadline.ts'
import { messageOf } from '../../../kit/errors.ts'
import type { RunRow } from '../../../store/store.ts'
import type { RunDeps } from '../deps.ts'
import { readParts } from './read-parts.ts'
import { storeResults } from './run-results.ts'

const { maxPatchBytes, maxBundleBytes, timeoutMs } = CHANGES_LIMITS
const MAX_LIST_BYTES = 16_777_216
const MAX_TEXT_BYTES = 65_536
/** The parts of a comparison. */
export const COMPARED_BYTES = {
  raw: MAX_LIST_BYTES,
  numstat: MAX_LIST_BYTES,
  patch: maxPatchBytes + 1,
} as const
const MAX_BYTES = {
  ...COMPARED_BYTES,
  heads: MAX_TEXT_BYTES,
  commit: 128,
  count: 32,
  problem: MAX_TEXT_BYTES,
  hidden: MAX_TEXT_BYTES,
  'no-branch': MAX_TEXT_BYTES,
  bundle: maxBundleBytes,
}
/** Longer than the time limit of the sandbox, so that the error message of the sandbox arrives first. */
const TIMEOUT_MS = timeoutMs + 30_000

const NOTHING: Omit<Conclusion, 'problems'> = { written: [], hadUncommittedChanges: false, isComplete: false }

/**
 * Stores the changes that a run made in its repository since the base commit. The sandbox reports them. Returns the events. A
 * missing part is listed in the problems of the results, and never fails the run.
 */
export async function storeRepositoryResults(
  { store, redactResult: redact, log }: Pick<RunDeps, 'store' | 'redactResult' | 'log'>,
  run: RunRow,
  client: AgentHostClient,
): Promise<RunEvent[]> {
  const base = run.workspace.kind === 'git' ? run.workspace.commit : undefined
  if (base === undefined) return []
  try {
    const conclusion = await reported(client, { base, runId: run.id })
    return await storeResults({ store, redact }, { run, conclusion })
  } catch (error) {
    log.warn('the changes of a run could not be stored', { error, runId: run.id })
    return []
  }
}

type Asked = { readonly base: string; readonly runId: string }

async function reported(client: AgentHostClient, { base, runId }: Asked): Promise<Conclusion> {
  try {
    const signal = withTimeout(TIMEOUT_MS)
    const changes = await client.repository.getChanges({ base, ref: branchRef(runId) }, signal)
    return conclusionOf(await readParts(changes, MAX_BYTES), base)
  } catch (error) {
    return {
      ...NOTHING,
      problems: [`The changes since the base commit ${base} could not be listed: ${messageOf(error)}.`],
    }
  }
}

type Parts = ReadonlyMap<string, Buffer>

/** What the lists and the patch of a sandbox describe. */
export function changesIn(parts: Parts): MadeDiff {
  const patch = parts.get('patch') ?? Buffer.alloc(0)
  const files = statsOf(textOf(parts, 'raw'), textOf(parts, 'numstat'))
  return { patch: patch.subarray(0, maxPatchBytes), isCut: patch.length > maxPatchBytes, files }
}

function conclusionOf(parts: Parts, base: string): Conclusion {
  const diff = changesIn(parts)
  const { files } = diff
  const branch = branchOf(parts, base)
  const rules = files.filter(({ path }) => /(?:^|\/)\.gitignore$/.test(path)).map(({ path }) => path)
  const problem = textOf(parts, 'problem').trim()
  const noBranch = textOf(parts, 'no-branch').trim()
  const hidden = toText(textOf(parts, 'hidden')).trim().split('\n').join(', ')
  return {
    written: files.filter(({ status }) => status !== 'deleted').map(({ path }) => path),
    diff,
    ...(branch && { branch }),
    hadUncommittedChanges: false,
    isComplete: problem === '' && noBranch === '',
    problems: [
      ...(problem === '' ? [] : [`Some files could not be read: ${problem}.`]),
      ...(noBranch === '' ? [] : [`The commits could not be stored: ${noBranch}.`]),
      ...(hidden === ''
        ? []
        : [`The commits change files that the diff does not show, such as ignored files: ${hidden}.`]),
      ...(rules.length === 0
        ? []
        : [`The run changed what git ignores (${rules.join(', ')}). Ignored files are not in the diff.`]),
    ],
  }
}

function branchOf(parts: Parts, base: string): MadeBranch | undefined {
  const bundle = parts.get('bundle')
  const tip = CommitId.safeParse(textOf(parts, 'commit').trim())
  const commits = Number(textOf(parts, 'count').trim())
  if (!bundle || !tip.success || !Number.isInteger(commits) || commits < 1) return undefined
  return {
    bundle,
    tip: tip.data,
    commits,
    otherBranches: otherBranches(textOf(parts, 'heads'), new Set([base, tip.data])),
  }
}

const textOf = (parts: Parts, name: string) => parts.get(name)?.toString('latin1') ?? ''
