import type { Run } from '../../contracts/api.ts'
import type { RunDiff } from '../../contracts/results.ts'
import { present } from '../../runtime/kit/present.ts'
import type { Paint } from '../terminal/paint.ts'
import { quoteWord } from '../terminal/shell-word.ts'
import { visible } from '../terminal/visible.ts'

const MAX_SHOWN = 20

export const count = (number: number, one: string, many = `${one}s`): string =>
  `${number.toLocaleString('en')} ${number === 1 ? one : many}`

/** Changed files that the user's tools execute or obey. Printed before other results. */
export function handOffLines({ handOff }: RunDiff, paint: Paint): string[] {
  if (handOff.length === 0) return []
  return [
    paint.yellow('The run changed files that tools on your machine execute or obey:'),
    ...shownFiles(handOff, paint),
    "Running this folder's tests, builds, hooks or editor tasks on your machine runs the agent's code with your rights.",
  ]
}

function shownFiles(handOff: RunDiff['handOff'], paint: Paint): string[] {
  const shown = handOff
    .slice(0, MAX_SHOWN)
    .map(({ path, kind }) => `  ${visible(path)}  ${paint.dim(visible(kind))}`)
  const left = handOff.length - shown.length
  return [...shown, ...(left > 0 ? [paint.dim(`  … ${left} more`)] : [])]
}

/** Changed files that CI, builds and tests execute or obey, before a push. */
export function executedLines({ handOff }: RunDiff, paint: Paint): string[] {
  if (handOff.length === 0) return []
  return [
    paint.yellow('The run changed files that CI, builds, tests or tools execute or obey:'),
    ...shownFiles(handOff, paint),
  ]
}

export const changeWords = ({ fileCount, additions, deletions }: RunDiff): string =>
  `${count(fileCount, 'file')} changed, ${count(additions, 'line')} added, ${deletions.toLocaleString('en')} removed`

/** Remarks about missing or altered parts of the diff. */
export function remarkLines({ problems, patch, ignored }: RunDiff): string[] {
  return [
    ...problems.map(visible),
    ...(patch.isRedacted ? ['Secrets in the diff are hidden, so it can be read but not applied.'] : []),
    ...(patch.isCut ? ['The diff is cut at 16 MiB.'] : []),
    ...(ignored && ignored.count > 0
      ? [`${count(ignored.count, 'file')} that git ignores changed too; their content was not kept.`]
      : []),
  ]
}

export type ResultsPlace = {
  readonly run: Run
  /** Option to append to printed command lines, so that they reach the same service. */
  readonly suffix: string
  /** The service was started for this command and stops with it. */
  readonly isEmbedded: boolean
  /** The uploaded folder, if it is not the current one. */
  readonly folder?: string
}

/** Summary after a run on a folder or a repository: hand-off files first, then the changes, then the next steps. */
export function resultLines(
  diff: RunDiff,
  { run, suffix, isEmbedded, folder }: ResultsPlace,
  paint: Paint,
): string[] {
  const { workspace } = run
  if (!['path', 'git', 'upload'].includes(workspace.kind)) return []
  const handOff = handOffLines(diff, paint)
  const sandbox = handOff.length > 0 && !isEmbedded ? inSandboxLines(run, suffix) : []
  const isChanged = diff.fileCount > 0
  const changes = isChanged ? [`${changeWords(diff)}. See them: agentweaver diff ${run.id}${suffix}`] : []
  const lines = [
    ...handOff,
    ...sandbox,
    ...changes,
    ...remarkLines(diff),
    ...nextLines(diff, { run, suffix, ...present({ folder }) }),
  ]
  return lines.length > 0 ? ['', ...lines] : []
}

/** How to run the tests of the result without a risk for this machine. A copy of a folder has no files in the service. */
function inSandboxLines({ id, workspace }: Run, suffix: string): string[] {
  if (workspace.kind === 'git' || workspace.kind === 'upload')
    return [`To run the tests in a sandbox: agentweaver exec ${id}${suffix} -- npm test`]
  return workspace.kind === 'path' && workspace.mode === 'in-place'
    ? [`To run them in a sandbox: agentweaver sandbox create --workspace ${quoted(workspace.path)}${suffix}`]
    : []
}

type NextPlace = Pick<ResultsPlace, 'run' | 'suffix' | 'folder'>

function nextLines(diff: RunDiff, { run, suffix, folder }: NextPlace): string[] {
  if (run.workspace.kind === 'git') return repositoryLines(diff, { run, suffix })
  if (run.workspace.kind === 'upload') return uploadLines(diff, { run, suffix, ...present({ folder }) })
  const isIsolated = run.workspace.kind === 'path' && run.workspace.mode === 'isolated'
  if (!diff.branch)
    return isIsolated && diff.fileCount === 0 ? ['The run changed nothing. Your folder is as it was.'] : []
  const fetch = `agentweaver fetch ${run.id}${suffix}`
  if (isIsolated)
    return [`Your folder is as it was. Bring the changes into your repository as a branch: ${fetch}`]
  return [`The files are changed in your folder. The commits of the run as a branch: ${fetch}`]
}

function uploadLines({ fileCount, problems }: RunDiff, { run, suffix, folder }: NextPlace): string[] {
  if (fileCount === 0 && problems.length === 0) return ['The run changed nothing. Your folder is as it was.']
  const to = folder === undefined ? '' : ` ${quoteWord(folder)}`
  return [
    'Your folder is as it was.',
    `Write the changes into it:      agentweaver apply ${run.id}${to}${suffix}`,
    `Download all files of the run:  agentweaver pull ${run.id} NEW-FOLDER${suffix}`,
  ]
}

function repositoryLines(diff: RunDiff, { run, suffix }: Pick<ResultsPlace, 'run' | 'suffix'>): string[] {
  if (diff.branch)
    return [
      `Push the commits to a branch of the run:             agentweaver push ${run.id} --branch NAME${suffix}`,
      `Bring the commits into your clone of the repository: agentweaver fetch ${run.id} --repo DIR${suffix}`,
    ]
  return diff.fileCount === 0 && diff.problems.length === 0 ? ['The run changed nothing.'] : []
}

const quoted = (path: string) => (/^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`)
