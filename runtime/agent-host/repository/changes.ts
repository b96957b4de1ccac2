import { PassThrough } from 'node:stream'
import type { ChangesRequest } from '../../../contracts/git-source.ts'
import { CHANGES_LIMITS } from '../../../contracts/git-source.ts'
import { SandboxError } from '../../kit/errors.ts'
import { untilDrained } from '../../workspace/archive/until-drained.ts'
import { type GitScript, type GitToolbox, runGit } from './git-command.ts'
import { failureText, GitMessages } from './progress.ts'

/** How two trees are compared. */
export const COMPARE =
  '-c core.quotePath=false diff-tree -r -M -l2000 --full-index --no-color --no-ext-diff --no-textconv'

/**
 * Compares the files with the base commit by content, through a separate index: the index, the configuration and the
 * attributes of the workspace can hide changes. Then makes a bundle of the commits, with the uncommitted changes as the
 * last one. Prints each part as `NAME SIZE`, a line feed, and its bytes.
 */
const CHANGES = `
top=$PWD
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
[ -d .git/objects ] || { echo 'fatal: the run removed or replaced .git' >&2; exit 1; }
format=sha1; [ \${#BASE} -gt 40 ] && format=sha256
git init -q --bare --template= --object-format=$format "$work/git" || exit 1
printf '%s\\n' "$top/.git/objects" >"$work/git/objects/info/alternates"
[ -f .git/shallow ] && cp .git/shallow "$work/git/shallow"
export GIT_AUTHOR_NAME=Agentweaver GIT_AUTHOR_EMAIL=agentweaver@localhost
export GIT_COMMITTER_NAME=Agentweaver GIT_COMMITTER_EMAIL=agentweaver@localhost
own() { GIT_DIR="$work/git" git "$@"; }
# Repositories inside the workspace have their own commits.
paths() { printf '.\\0'; find . -mindepth 2 -name .git -prune -printf ':(exclude,literal)%h\\0'; }
tree() {
  export GIT_INDEX_FILE="$work/index-$1"
  own read-tree "$2" || return 1
  paths | GIT_WORK_TREE="$top" own add -A --ignore-errors --pathspec-from-file=- --pathspec-file-nul 2>"$work/errors" ||
    head -n 1 "$work/errors" >"$work/problem"
  own write-tree
}
after=$(tree diff "$BASE") || exit 1
compare() { own -c core.bare=true ${COMPARE} "$@" "$BASE^{tree}" "$after"; }
compare -z --raw >"$work/raw" && compare -z --numstat >"$work/numstat" || exit 1
compare -p | head -c ${CHANGES_LIMITS.maxPatchBytes + 1} >"$work/patch"
bundle() {
  tip=$(git rev-parse -q --verify 'HEAD^{commit}') || tip=$BASE
  git for-each-ref --format='%(objectname) %(refname)' refs/heads | head -c 65536 >"$work/heads"
  last=$(tree branch "$tip") || return 1
  [ "$last" = "$after" ] ||
    own -c core.quotePath=false diff-tree -r --name-only "$after" "$last" | head -n 5 | head -c 4096 >"$work/hidden"
  commit=$tip
  if [ "$last" != "$(own rev-parse "$tip^{tree}")" ]; then
    commit=$(own commit-tree "$last" -p "$tip" -m "Uncommitted changes of \${REF##*/}") || return 1
  fi
  echo "$commit" >"$work/commit"
  own rev-list --count "$commit" "^$BASE" >"$work/count" || return 1
  [ "$(cat "$work/count")" = 0 ] && return 0
  own update-ref "$REF" "$commit" || return 1
  if [ -n "\${BASH_VERSION:-}" ]; then ulimit -f ${CHANGES_LIMITS.maxBundleBytes / 1024}; else ulimit -f ${CHANGES_LIMITS.maxBundleBytes / 512}; fi
  own bundle create -q "$work/bundle" "$REF" "^$BASE"
}
(bundle) 2>"$work/errors" || { rm -f "$work/bundle"; tail -n 1 "$work/errors" >"$work/no-branch"; }
for part in raw numstat patch heads commit count problem hidden no-branch bundle; do
  [ -f "$work/$part" ] || continue
  printf '%s %s\\n' "$part" "$(($(wc -c <"$work/$part")))"
  cat "$work/$part"
done
`

/** Streams the changes of a workspace. The run may have changed its git directory, so they are only its report. */
export const streamChanges = (
  toolbox: GitToolbox,
  { base, ref }: ChangesRequest,
  timeoutMs: number = CHANGES_LIMITS.timeoutMs,
): PassThrough =>
  streamScript(
    toolbox,
    { script: CHANGES, environment: { BASE: base, REF: ref }, timeoutMs },
    'compare the files with the base commit',
  )

/** Streams the output of a script. Without an exit status of 0, the stream fails with the message of git. */
export function streamScript(toolbox: GitToolbox, script: GitScript, what: string): PassThrough {
  const out = new PassThrough()
  const stop = new AbortController()
  out.once('close', () => stop.abort())
  const messages = new GitMessages()
  const onChunk = async (stream: 'stdout' | 'stderr', bytes: Uint8Array) => {
    if (stream === 'stderr') messages.push(bytes)
    else if (!out.destroyed && !out.write(bytes)) await untilDrained(out)
  }
  runGit(toolbox, script, { onChunk, signal: stop.signal }).then(
    (result) => {
      if (result.exitCode === 0 && !result.outputTruncated) out.end()
      else
        out.destroy(new SandboxError('workspace_invalid', whyNone(result, failureText(messages.end()), what)))
    },
    (error: Error) => out.destroy(error),
  )
  return out
}

const whyNone = (
  { timedOut, message }: { readonly timedOut: boolean; readonly message?: string | undefined },
  said: string,
  what: string,
): string =>
  timedOut ? `git took too long to ${what}` : `git cannot ${what}: ${said || message || 'it gave no reason'}`
