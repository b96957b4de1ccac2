import { styleText } from 'node:util'
import type { EnvSource } from '../../runtime/kit/parse-env.ts'

const STYLES = ['bold', 'dim', 'red', 'green', 'yellow', 'cyan'] as const
export type Style = (typeof STYLES)[number]

/** Colours text, or returns it unchanged if colours are off. */
export type Paint = Readonly<Record<Style, (text: string) => string>> & { readonly isColoured: boolean }

/** Colours are on for a terminal that is not dumb, unless NO_COLOR is set. */
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
