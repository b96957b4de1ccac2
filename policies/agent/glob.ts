/**
 * Whether `text` matches `glob`, where `*` stands for any characters including `/`. Each literal piece is searched
 * once, from left to right: a repository can contain many long patterns, and commands can be long too.
 */
export function matchesGlob(glob: string, text: string): boolean {
  // Most pairs differ in their first character, and this comparison is much cheaper than splitting the pattern.
  if (glob[0] !== '*' && glob[0] !== text[0]) return false
  const [first = '', ...pieces] = glob.split('*')
  const last = pieces.pop()
  if (last === undefined) return glob === text
  const end = text.length - last.length
  if (end < first.length || !text.startsWith(first) || !text.endsWith(last)) return false
  let at = first.length
  for (const piece of pieces) {
    const found = text.indexOf(piece, at)
    if (found < 0 || found + piece.length > end) return false
    at = found + piece.length
  }
  return true
}
