import type { Paint } from '../terminal/paint.ts'
import { visible } from '../terminal/visible.ts'

const SHOWN_LINES = 14

const split = (value: unknown): string[] =>
  typeof value === 'string' && value !== '' ? visible(value).replace(/\n$/, '').split('\n') : []

function colourOf(line: string, paint: Paint): string {
  if (line.startsWith('-')) return paint.red(line)
  return line.startsWith('+') ? paint.green(line) : line
}

/** Lines that an editing call removes and adds. Empty for other calls. */
export function changeLines(tool: string, request: unknown, paint: Paint): string[] {
  if (typeof request !== 'object' || request === null) return []
  const given = request as Readonly<Record<string, unknown>>
  const lines =
    tool === 'apply_patch'
      ? split(given['patch'])
      : [
          ...split(given['old_str']).map((line) => `- ${line}`),
          ...split(given['new_str'] ?? given['file_text']).map((line) => `+ ${line}`),
        ]
  const shown = lines.slice(0, SHOWN_LINES).map((line) => colourOf(line, paint))
  const left = lines.length - shown.length
  return left > 0 ? [...shown, paint.dim(`… ${left} more lines`)] : shown
}
