import type { ExecResult } from '../../../contracts/exec.ts'
import {
  CLONE_LIMITS,
  type ClonedRepository,
  type CloneLine,
  type CloneRequest,
} from '../../../contracts/git-source.ts'
import { SandboxError } from '../../kit/errors.ts'
import { staysInside } from '../../workspace/archive/link-target.ts'
import { type GitScript, type GitToolbox, NO_GIT, runGit } from './git-command.ts'
import { type ListedLink, TreeListing, UnfitTree } from './listed-tree.ts'
import { failureText, GitMessages, type GitProgress } from './progress.ts'
import { isCommit, patternsOf, type Wanted, wantedOf } from './remote-refs.ts'

type Failure = Extract<CloneLine, { type: 'failed' }>

/** A clone that failed, with the reason for people. */
class CloneFailed extends Error {
  readonly reason: Failure['reason']
  constructor(reason: Failure['reason'], message: string) {
    super(message)
    this.reason = reason
  }
}

export interface CloneOptions {
  readonly signal: AbortSignal
  readonly onProgress: (progress: GitProgress) => void
  /** @default the limit of a clone */
  readonly timeoutMs?: number
}

const EMPTY = `find . -mindepth 1 -maxdepth 1 -exec rm -rf {} +`

/** The identity of commits: git refuses to commit without one. A command may set another one. */
const PREPARE = `
${EMPTY} || exit 1
git init -q --template= . &&
git config user.name Agentweaver && git config user.email agentweaver@localhost &&
git remote add origin "$CLONE_URL"
`
/** The unit of the limit depends on the shell. */
const LIMIT_FILES = `
if [ -n "\${BASH_VERSION:-}" ]; then ulimit -f ${CLONE_LIMITS.maxBytes / 1024}; else ulimit -f ${CLONE_LIMITS.maxBytes / 512}; fi
`
const LIST_REFS = 'git ls-remote --symref origin $CLONE_PATTERNS'
const FETCH = `${LIMIT_FILES}
git fetch --progress --no-tags \${CLONE_DEPTH:+--depth="$CLONE_DEPTH"} origin "$CLONE_REFSPEC"`
const RESOLVE = `git rev-parse --verify -q "$CLONE_REVISION^{commit}"`
const LIST_TREE = 'git ls-tree -r -l -z --full-tree "$CLONE_COMMIT"'
const LINK_TARGETS = 'git cat-file --batch'
const CHECK_OUT = `
if [ -n "\${CLONE_BRANCH:-}" ]; then
  git checkout -q -B "$CLONE_BRANCH" "$CLONE_COMMIT" &&
  git config "branch.$CLONE_BRANCH.remote" origin &&
  git config "branch.$CLONE_BRANCH.merge" "refs/heads/$CLONE_BRANCH"
else
  git checkout -q --detach "$CLONE_COMMIT"
fi
`
const CLEAN_UP_MS = 60_000
const MAX_LISTING_BYTES = 4_194_304

/**
 * Clones a repository into the workspace, which it empties first, so that it can be repeated. Before it writes a file of
 * the commit, it applies the limits and rules of an uploaded archive. A failed clone leaves an empty workspace.
 */
export async function cloneRepository(
  toolbox: GitToolbox,
  request: CloneRequest,
  options: CloneOptions,
): Promise<Exclude<CloneLine, { type: 'progress' }>> {
  const { timeoutMs = CLONE_LIMITS.timeoutMs, signal } = options
  const cloning = new Cloning(toolbox, request, { ...options, timeoutMs })
  try {
    return { type: 'cloned', repository: await cloning.clone() }
  } catch (error) {
    if (!(error instanceof CloneFailed || error instanceof UnfitTree)) throw error
    const io = { onChunk: () => undefined, signal }
    await runGit(toolbox, { script: EMPTY, timeoutMs: CLEAN_UP_MS }, io)
    const message = error.message.slice(0, CLONE_LIMITS.maxMessage)
    return { type: 'failed', reason: error.reason, message }
  }
}

class Cloning {
  readonly #toolbox: GitToolbox
  readonly #request: CloneRequest
  readonly #options: CloneOptions & { readonly timeoutMs: number }
  readonly #endsAt: number

  constructor(
    toolbox: GitToolbox,
    request: CloneRequest,
    options: CloneOptions & { readonly timeoutMs: number },
  ) {
    this.#toolbox = toolbox
    this.#request = request
    this.#options = options
    this.#endsAt = performance.now() + options.timeoutMs
  }

  async clone(): Promise<ClonedRepository> {
    const { url } = this.#request
    await this.#git({ script: PREPARE, environment: { CLONE_URL: url } })
    const wanted = await this.#find()
    this.#options.onProgress({ step: 'Fetching' })
    await this.#fetch(wanted)
    const commit = await this.#commitOf(wanted)
    const tree = new TreeListing()
    await this.#git({ script: LIST_TREE, environment: { CLONE_COMMIT: commit } }, (piece) => tree.push(piece))
    await this.#judgeLinks(tree.links)
    this.#options.onProgress({ step: 'Checking out files' })
    const { branch } = wanted
    const environment = { CLONE_COMMIT: commit, CLONE_BRANCH: branch ?? '' }
    await this.#git({ script: CHECK_OUT, environment })
    const { files, bytes, submodules } = tree
    return { commit, ...(branch !== undefined && { branch }), files, bytes, submodules }
  }

  async #find(): Promise<Wanted> {
    const { ref } = this.#request
    if (ref !== undefined && isCommit(ref)) return { refspec: ref, revision: ref }
    const environment = { CLONE_PATTERNS: patternsOf(ref).join(' ') }
    const listing = await this.#output({ script: LIST_REFS, environment, network: true })
    const wanted = wantedOf(listing, ref)
    if (wanted) return wanted
    if (ref === undefined)
      throw new CloneFailed('no-ref', 'The repository is empty, or its HEAD names no branch.')
    throw new CloneFailed('no-ref', `The repository has no branch and no tag ${JSON.stringify(ref)}.`)
  }

  async #fetch({ refspec }: Wanted): Promise<void> {
    const { depth } = this.#request
    const environment = {
      CLONE_REFSPEC: refspec,
      ...(depth !== undefined && { CLONE_DEPTH: String(depth) }),
    }
    await this.#git({ script: FETCH, environment, network: true })
  }

  /** The commit of an earlier clone of this run stays the base, although the branch may have moved. */
  async #commitOf({ revision }: Wanted): Promise<string> {
    const { commit: pinned } = this.#request
    const isThere = async (name: string) => {
      const result = await this.#run({ script: RESOLVE, environment: { CLONE_REVISION: name } })
      return result.exitCode === 0 ? result.stdout.trim() : undefined
    }
    if (pinned !== undefined) {
      const found = await isThere(pinned)
      if (found !== undefined) return found
      await this.#fetch({ refspec: pinned, revision: pinned })
      return (await isThere(pinned)) ?? noCommit(pinned)
    }
    return (await isThere(revision)) ?? noCommit(revision)
  }

  async #judgeLinks(links: readonly ListedLink[]): Promise<void> {
    if (links.length === 0) return
    const stdin = Buffer.from(links.map(({ id }) => `${id}\n`).join(''))
    const targets = parseBatch(Buffer.concat(await this.#pieces({ script: LINK_TARGETS }, stdin)))
    for (const [index, { path }] of links.entries()) {
      const target = targets[index] ?? ''
      if (!staysInside(target, path.split('/').length - 1))
        throw new UnfitTree(
          `The symbolic link ${JSON.stringify(path)} of the repository points to ${JSON.stringify(target)}, which could lead out of the workspace.`,
          { reason: 'link' },
        )
    }
  }

  async #output(script: Step): Promise<string> {
    return Buffer.concat(await this.#pieces(script))
      .toString('utf8')
      .slice(0, MAX_LISTING_BYTES)
  }

  async #pieces(script: Step, stdin?: Uint8Array): Promise<Uint8Array[]> {
    const pieces: Uint8Array[] = []
    await this.#git(script, (piece) => pieces.push(piece), stdin)
    return pieces
  }

  /** Throws `CloneFailed` if git fails. */
  async #git(script: Step, onOutput: (piece: Uint8Array) => unknown = () => undefined, stdin?: Uint8Array) {
    const { result, lines } = await this.#exec(script, onOutput, stdin)
    if (result.exitCode === 0 && !result.outputTruncated) return
    throw failureOf(result, lines, this.#options.timeoutMs)
  }

  async #run(script: Step): Promise<{ readonly exitCode: number | null; readonly stdout: string }> {
    let stdout = ''
    const { result } = await this.#exec(script, (piece) => {
      stdout += Buffer.from(piece).toString('latin1')
    })
    return { exitCode: result.exitCode, stdout }
  }

  async #exec(script: Step, onOutput: (piece: Uint8Array) => unknown, stdin?: Uint8Array) {
    const { onProgress, signal } = this.#options
    const messages = new GitMessages(onProgress)
    const timeoutMs = Math.max(1, Math.round(this.#endsAt - performance.now()))
    const result = await runGit(
      this.#toolbox,
      { ...script, timeoutMs },
      {
        onChunk: (stream, bytes) => {
          if (stream === 'stderr') messages.push(bytes)
          else onOutput(bytes)
        },
        signal,
        ...(stdin && { stdin }),
      },
    )
    signal.throwIfAborted()
    if (result.reason === 'lost')
      throw new SandboxError('sandbox_lost', result.message ?? 'the runner was lost')
    return { result, lines: messages.end() }
  }
}

type Step = Omit<GitScript, 'timeoutMs'>

function noCommit(name: string): never {
  throw new CloneFailed('no-ref', `${name} names no commit of the repository.`)
}

/** `ID blob SIZE LF CONTENT LF` for each object. */
function parseBatch(output: Buffer): string[] {
  const contents: string[] = []
  for (let at = 0; at < output.length; ) {
    const end = output.indexOf(10, at)
    const size = Number(output.subarray(at, end).toString('latin1').split(' ')[2])
    if (end < 0 || !Number.isInteger(size)) break
    contents.push(output.subarray(end + 1, end + 1 + size).toString('utf8'))
    at = end + size + 2
  }
  return contents
}

function failureOf(result: ExecResult, lines: readonly string[], timeoutMs: number): CloneFailed {
  if (result.timedOut)
    return new CloneFailed('timeout', `The clone took longer than ${timeoutMs / 60_000} minutes.`)
  if (result.exitCode === NO_GIT) return new CloneFailed('no-git', 'git is not installed in the sandbox.')
  if (lines.some((line) => line.includes('File too large') || line.includes('signal 25')))
    return new CloneFailed('too-large', `The history has more than ${CLONE_LIMITS.maxBytes} bytes.`)
  const said = failureText(lines) || result.message || `git ended with ${result.exitCode ?? result.signal}`
  return new CloneFailed('git', said)
}
