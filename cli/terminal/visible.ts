/**
 * Characters that change what a person sees without being seen: controls, format characters (bidirectional,
 * zero-width, tags), what a font may ignore, and spaces that are not the space. Tab, line feed and the selector
 * that makes an emoji colourful stay.
 */
const HIDDEN = /(?![\t\n ]|\ufe0f)[\p{Cc}\p{Cf}\p{Z}\p{Default_Ignorable_Code_Point}]/gu

const codePoint = (character: string) =>
  `<U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}>`

/** The text with every hidden character written out, so that what is shown is what there is. */
export const visible = (text: string): string => text.replace(HIDDEN, codePoint)

const SGR = /(\u001b\[[0-9;:]*m)/u

/**
 * A command's output for a terminal: colours stay, everything else that would steer the terminal (move the
 * cursor, set the title, write the clipboard) is written out.
 */
export function harmless(text: string): string {
  return text
    .replaceAll('\r\n', '\n')
    .split(SGR)
    .map((piece) => (SGR.test(piece) ? piece : visible(piece.replaceAll('\r', '\n'))))
    .join('')
}

/**
 * One line of it that ends its own colours: a command that leaves "concealed" on would hide what is written after
 * it, such as the question whether to run something.
 */
export function harmlessLine(line: string): string {
  const shown = harmless(line)
  return SGR.test(shown) ? `${shown}\u001b[0m` : shown
}
