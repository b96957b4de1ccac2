import type { PassThrough } from 'node:stream'
import { type OpenPush, PUSH_LIMITS, type SendPush, type SentPush } from '../../../contracts/push.ts'
import { SandboxError } from '../../kit/errors.ts'
import { COMPARE, streamScript } from './changes.ts'
import { type GitToolbox, runGit } from './git-command.ts'
import { failureText, GitMessages } from './progress.ts'

/**
 * Makes a fresh repository: the base comes from the server, the commits from the bundle. No file, index,
 * configuration, hook or attribute of the run is in it, because a bundle has only objects. Prints what the commits change,
 * in the parts of `changes.ts`.
 */
const OPEN = `
rm -rf push && mkdir push || exit 1
format=sha1; [ \${#BASE} -gt 40 ] && format=sha256
git init -q --bare --template= --object-format=$format push/git || exit 1
export GIT_DIR="$PWD/push/git"
git remote add origin "$PUSH_URL" || exit 1
git fetch -q --no-tags \${DEPTH:+--depth="$DEPTH"} origin "$BASE" || exit 1
git bundle verify -q ${PUSH_LIMITS.bundle} >/dev/null || exit 1
GIT_ALLOW_PROTOCOL=file git fetch -q --no-tags ${PUSH_LIMITS.bundle} "$RESULT:refs/agentweaver/result" || exit 1
[ "$(git rev-parse -q --verify 'refs/agentweaver/result^{commit}')" = "$COMMIT" ] ||
  { echo 'fatal: the stored commits are not those of the diff' >&2; exit 1; }
compare() { git ${COMPARE} "$@" "$BASE^{tree}" "$COMMIT^{tree}"; }
compare -z --raw >push/raw && compare -z --numstat >push/numstat || exit 1
compare -p | head -c ${PUSH_LIMITS.maxBytes + 1} >push/patch
for part in raw numstat patch; do
  printf '%s %s\\n' "$part" "$(($(wc -c <"push/$part")))"
  cat "push/$part"
done
`

/** The old commit is read first, for the audit. It is printed only if the push succeeds. */
const SEND = `
[ -d push/git ] || { echo 'fatal: no push was prepared' >&2; exit 1; }
export GIT_DIR="$PWD/push/git"
previous=$(git ls-remote origin "$REF") || exit 1
git push -q --no-verify --no-signed --no-follow-tags --recurse-submodules=no origin "$COMMIT:$REF" || exit 1
printf '%s' "\${previous%%[!0-9a-f]*}"
`

export function streamPushed(toolbox: GitToolbox, request: OpenPush): PassThrough {
  const { url, base, depth, result, commit } = request
  const environment = {
    ...{ PUSH_URL: url, BASE: base, RESULT: result, COMMIT: commit },
    ...(depth !== undefined && { DEPTH: String(depth) }),
  }
  const script = { script: OPEN, environment, network: true, timeoutMs: PUSH_LIMITS.timeoutMs }
  return streamScript(toolbox, script, 'prepare the push')
}

export async function sendPush(
  toolbox: GitToolbox,
  { commit, ref }: SendPush,
  signal: AbortSignal,
): Promise<SentPush> {
  const messages = new GitMessages()
  let printed = ''
  const onChunk = (stream: 'stdout' | 'stderr', bytes: Uint8Array) => {
    if (stream === 'stderr') messages.push(bytes)
    else printed += Buffer.from(bytes).toString('latin1')
  }
  const environment = { COMMIT: commit, REF: ref }
  const { timeoutMs } = PUSH_LIMITS
  const script = { script: SEND, environment, network: true, timeoutMs }
  const result = await runGit(toolbox, script, { onChunk, signal })
  if (result.reason === 'lost')
    throw new SandboxError('sandbox_lost', result.message ?? 'the runner was lost')
  const lines = messages.end()
  if (result.exitCode === 0) return { type: 'pushed', ...(printed !== '' && { previous: printed }) }
  const said = result.timedOut
    ? `the push took longer than ${timeoutMs / 60_000} minutes`
    : rejection(lines) || failureText(lines) || result.message || 'git gave no reason'
  return { type: 'failed', message: said.slice(0, PUSH_LIMITS.maxMessage) }
}

/** Git's own words for this refer to the branches of a clone. */
const rejection = (lines: readonly string[]): string =>
  lines.some((line) => /^! \[rejected\].*\((?:non-fast-forward|fetch first)\)/.test(line))
    ? 'the branch has commits that are not in the result of the run. Push to a branch with another name'
    : ''
