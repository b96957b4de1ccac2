/**
 * Characters that change what a person sees without being seen: controls, format characters (bidirectional,
 * zero-width, tags), what a font may ignore, and spaces that are not the space. Tab, line feed and the selector
 * that makes an emoji colourful stay.
 */
const STEERING =
  /(?![\t\n ]|(?<=\p{Extended_Pictographic})\ufe0f)[\p{Cc}\p{Cf}\p{Z}\p{Default_Ignorable_Code_Point}\u2800]/gu

/** Those, marks that change the look of the letter before them, and characters that no font has to show. */
const HIDDEN =
  /(?![\t\n ]|(?<=\p{Extended_Pictographic})\ufe0f)[\p{C}\p{Z}\p{M}\p{Default_Ignorable_Code_Point}\u2800]/gu

const codePoint = (character: string) =>
  `<U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}>`

/**
 * The text with every hidden character written out, so that what is shown is what there is: for commands, paths and
 * everything else that is decided on.
 */
export const visible = (text: string): string => text.replace(HIDDEN, codePoint)

/** Prose in any language: combining marks stay, since many scripts cannot be read without them. */
export const readable = (text: string): string => text.replace(STEERING, codePoint)

const SGR = /(\u001b\[[0-9;:]*m)/u

/**
 * A command's output for a terminal: colours stay, everything else that would steer the terminal (move the
 * cursor, set the title, write the clipboard) is written out.
 */
export function harmless(text: string): string {
  return text
    .replaceAll('\r\n', '\n')
    .split(SGR)
    .map((piece) => (SGR.test(piece) ? piece : readable(piece.replaceAll('\r', '\n'))))
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
