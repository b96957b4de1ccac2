import { structuredPatch } from 'diff'
import { SETTINGS_FILE } from '../../contracts/policy.ts'
import type { SettingsComparison } from '../../contracts/trusted-folders.ts'
import type { Paint, Style } from '../terminal/paint.ts'
import { visible } from '../terminal/visible.ts'

/** What trusting a folder's settings file would change: its text, and the effect on runs. */
export function differenceLines(comparison: SettingsComparison, paint: Paint): string[] {
  const { path, inForce, file } = comparison
  const name = `${visible(path)}/${SETTINGS_FILE.path}`
  return [
    paint.dim(
      `--- ${inForce ? inForceWords(inForce) : 'nothing in force: no run has worked in this folder'}`,
    ),
    paint.dim(`+++ ${name}${file.text === undefined ? ' (no such file: the defaults)' : ''}`),
    ...textLines(inForce?.text ?? '', file.text ?? '', paint),
    ...effectLines(comparison, paint),
    ...file.notGranted.map((words) => `Not granted: ${visible(words)}`),
  ]
}

function inForceWords({ text, origin, trustedAt }: NonNullable<SettingsComparison['inForce']>): string {
  const how = origin === 'trust' ? 'trusted' : 'taken by the first run'
  return `in force, ${how} at ${trustedAt}${text === undefined ? ' (no file: the defaults)' : ''}`
}

/** Above this number of changed lines, the texts are shown one after the other, because a diff could take minutes. */
const MAX_EDITS = 1000

function textLines(before: string, after: string, paint: Paint): string[] {
  const patch = structuredPatch('', '', before, after, '', '', { context: 3, maxEditLength: MAX_EDITS })
  const lines = patch
    ? patch.hunks.flatMap(({ oldStart, newStart, lines }) => [`@@ -${oldStart} +${newStart} @@`, ...lines])
    : [...prefixed('-', before), ...prefixed('+', after)]
  return lines.map((line) => paint[TONES[line[0] ?? ''] ?? 'dim'](visible(line)))
}

const TONES: Readonly<Record<string, Style>> = { '-': 'red', '+': 'green' }

const prefixed = (sign: string, text: string): string[] => text.split('\n').map((line) => sign + line)

/** Settings that change for runs. A change of comments or order has no effect. */
function effectLines({ inForce, file }: SettingsComparison, paint: Paint): string[] {
  const before = inForce?.settings
  if (before === undefined) return []
  const words = (value: unknown) => (value === undefined ? 'not set' : visible(JSON.stringify(value)))
  const keys = Object.keys({ ...file.settings, ...before }) as (keyof typeof before)[]
  const changes = keys.flatMap((key) => {
    const [old, after] = [words(before[key]), words(file.settings[key])]
    return old === after ? [] : [`  ${key}: ${old} → ${after}`]
  })
  return changes.length === 0
    ? [paint.dim('Nothing changes for runs.')]
    : [paint.bold('Changes for runs:'), ...changes]
}
