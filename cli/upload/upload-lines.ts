import { FILE_LIMITS } from '../../contracts/limits.ts'
import { type CliError, usageError } from '../cli-error.ts'
import { count } from '../results/result-lines.ts'
import type { Paint } from '../terminal/paint.ts'
import { quoteWord } from '../terminal/shell-word.ts'
import { visible } from '../terminal/visible.ts'
import { IGNORE_FILE } from './list-files.ts'
import type { UploadPlan } from './plan-upload.ts'
import { sizeWords } from './size-words.ts'

const MAX_SHOWN = 10

/** The size of an upload, and the files that it leaves out. */
export function planLines(plan: UploadPlan, paint: Paint): string[] {
  const { files, bytes, historyBytes, secrets, trackedSecrets, nested, omitted } = plan
  const history =
    historyBytes === undefined ? 'without git history' : `${sizeWords(historyBytes)} of it git history`
  return [
    paint.dim(`Uploading ${count(files, 'file')}, ${sizeWords(bytes)} (${history}).`),
    ...shown(
      secrets,
      (path) => path,
      (number) => [
        paint.yellow(`Left out: ${count(number, 'untracked file')} that may contain secrets:`),
        `To upload one of them: --include-secret ${quoteWord(visible(secrets[0] ?? ''))}`,
      ],
    ),
    ...shown(
      trackedSecrets,
      (path) => path,
      (number) => [
        paint.yellow(`Uploaded, because git tracks them: ${count(number, 'file')} that may contain secrets:`),
        `To leave one out: name it in ${IGNORE_FILE}. Its committed versions are in the history.`,
      ],
    ),
    ...shown(
      nested,
      (path) => path,
      (number) => [
        `${count(number, 'repository', 'repositories')} inside the folder: the files are uploaded, the history is not:`,
      ],
    ),
    ...shown(
      omitted,
      ([path, reason]) => `${path}: ${reason}`,
      (number) => [`Left out: ${count(number, 'entry', 'entries')}:`],
    ),
  ]
}

function shown<T>(
  items: readonly T[],
  text: (item: T) => string,
  words: (number: number) => readonly string[],
): string[] {
  if (items.length === 0) return []
  const [title = '', ...after] = words(items.length)
  const left = items.length - MAX_SHOWN
  return [
    title,
    ...items.slice(0, MAX_SHOWN).map((item) => `  ${visible(text(item))}`),
    ...(left > 0 ? [`  … ${left} more`] : []),
    ...after,
  ]
}

/** Throws if the service would refuse the archive. */
export function refuseOversize({ entries, archiveBytes, largest }: UploadPlan): void {
  const { maxArchiveBytes, maxArchiveEntries } = FILE_LIMITS
  if (archiveBytes > maxArchiveBytes)
    throw tooLarge(
      `The folder is too large to upload: ${sizeWords(archiveBytes)}, and the limit is ${sizeWords(maxArchiveBytes)}.`,
      largest,
    )
  if (entries > maxArchiveEntries)
    throw tooLarge(
      `The folder has too many files to upload: ${entries.toLocaleString('en')}, and the limit is ${maxArchiveEntries.toLocaleString('en')}.`,
      largest,
    )
}

export function tooLarge(message: string, largest: UploadPlan['largest']): CliError {
  const lines = largest.map(([path, bytes]) => `  ${sizeWords(bytes).padStart(10)}  ${visible(path)}`)
  return usageError(
    [message, 'The largest folders:', ...lines].join('\n'),
    `Name folders that the run does not need in ${IGNORE_FILE}, or leave the history out with --no-git.`,
  )
}
