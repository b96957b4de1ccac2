import type { Paint } from '../terminal/paint.ts'
import { visible } from '../terminal/visible.ts'

/** A unified diff for a terminal. Each line is escaped, so that file contents cannot send control sequences to it. */
export function shownPatch(patch: string, paint: Paint): string {
  return patch
    .split('\n')
    .map((line) => {
      const shown = visible(line)
      if (/^(?:diff |index |--- |\+\+\+ |(?:new|old|deleted) (?:file )?mode |rename |similarity )/.test(line))
        return paint.bold(shown)
      if (line.startsWith('@@')) return paint.cyan(shown)
      if (line.startsWith('+')) return paint.green(shown)
      return line.startsWith('-') ? paint.red(shown) : shown
    })
    .join('\n')
}
