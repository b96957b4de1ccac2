import type { Style } from '../terminal/paint.ts'
import { wrap } from '../terminal/wrap.ts'
import { GUTTER, type Look, row } from '../view/row.ts'

/** `ok`: works. `off`: not wanted. `missing`: optional and absent. `advice`: works, and could be safer. `fault`: runs cannot work. */
type State = 'ok' | 'off' | 'missing' | 'advice' | 'fault'

/** One result of the doctor. */
export interface Finding {
  readonly about: string
  readonly state: State
  readonly detail: string
  /** A command or a setting that fixes it. */
  readonly remedy?: string
}

const TONE: Readonly<Record<State, Style>> = {
  ok: 'green',
  off: 'dim',
  missing: 'yellow',
  advice: 'yellow',
  fault: 'red',
}
const WORD_WIDTH = 9

export function findingLines(look: Look, findings: readonly Finding[]): string[] {
  const { paint } = look
  const indent = ' '.repeat(WORD_WIDTH)
  return findings.flatMap(({ about, state, detail, remedy }, index) => {
    const label = findings[index - 1]?.about === about ? '' : about
    const words = wrap(detail, look.width - GUTTER - WORD_WIDTH)
    const fix = remedy === undefined ? [] : wrap(`change it: ${remedy}`, look.width - GUTTER - WORD_WIDTH)
    const [first = '', ...rest] = [...words, ...fix.map(paint.dim)]
    return [
      ...row(look, label, paint[TONE[state]](state.padEnd(WORD_WIDTH)) + first),
      ...rest.map((line) => ' '.repeat(GUTTER) + indent + line),
    ]
  })
}
