/**
 * Invisible characters that change how text looks: controls, format characters (bidirectional, zero-width, tags),
 * characters that fonts may ignore, and special spaces. Tab, line feed and the emoji presentation selector are allowed.
 */
const STEERING =
  /(?![\t\n ]|(?<=\p{Extended_Pictographic})\ufe0f)[\p{Cc}\p{Cf}\p{Z}\p{Default_Ignorable_Code_Point}\u2800]/gu

/** `STEERING`, plus combining marks, which change the letter before them, and unassigned characters. */
const HIDDEN =
  /(?![\t\n ]|(?<=\p{Extended_Pictographic})\ufe0f)[\p{C}\p{Z}\p{M}\p{Default_Ignorable_Code_Point}\u2800]/gu

const codePoint = (character: string) =>
  `<U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}>`

/** Escapes every hidden character. Used for commands, paths and all other text that a person decides about. */
export const visible = (text: string): string => text.replace(HIDDEN, codePoint)

/** Like `visible`, and escapes tabs and line feeds too, so that a name cannot forge a line or a column. */
export const visibleLine = (text: string): string => visible(text).replace(/[\t\n]/g, codePoint)

/** Like `visible`, but keeps combining marks, because many scripts cannot be read without them. Used for prose. */
export const readable = (text: string): string => text.replace(STEERING, codePoint)

const SGR = /(\u001b\[[0-9;:]*m)/u
const SGR_ALL = new RegExp(SGR, 'gu')

/**
 * Output of a command for a terminal. Colours stay; all other control sequences (cursor movement, window title,
 * clipboard) are escaped.
 */
export function harmless(text: string): string {
  return text
    .replaceAll('\r\n', '\n')
    .split(SGR)
    .map((piece) => (SGR.test(piece) ? piece : readable(piece.replaceAll('\r', '\n'))))
    .join('')
}

/** The same without colours: for a pipe, a file, or NO_COLOR. */
export const colourless = (text: string): string => harmless(text).replaceAll(SGR_ALL, '')

/**
 * One line that resets its colours at its end. Otherwise a command that turns on "concealed" would hide the text after
 * it, such as an approval question.
 */
export function harmlessLine(line: string, isColoured: boolean): string {
  if (!isColoured) return colourless(line)
  const shown = harmless(line)
  return SGR.test(shown) ? `${shown}\u001b[0m` : shown
}
