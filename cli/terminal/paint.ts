import { styleText } from 'node:util'
import type { EnvSource } from '../../runtime/kit/parse-env.ts'

const STYLES = ['bold', 'dim', 'red', 'green', 'yellow', 'cyan'] as const
export type Style = (typeof STYLES)[number]

/** Colours text, or leaves it as it is where colours are not wanted. */
export type Paint = Readonly<Record<Style, (text: string) => string>> & { readonly isColoured: boolean }

/** Whether a stream wants colours: a terminal that is not dumb, and nobody said NO_COLOR. */
export function wantsColour(stream: { isTTY?: boolean }, env: EnvSource): boolean {
  if (env['NO_COLOR']) return false
  return stream.isTTY === true && env['TERM'] !== 'dumb'
}

export function createPaint(coloured: boolean): Paint {
  const style = (name: Style) => (text: string) =>
    coloured && text !== '' ? styleText(name, text, { validateStream: false }) : text
  const styles = Object.fromEntries(STYLES.map((name) => [name, style(name)])) as Record<
    Style,
    ReturnType<typeof style>
  >
  return { ...styles, isColoured: coloured }
}
