/**
 * Whether `text` has the form of `glob`, where `*` stands for any characters, `/` too. Each piece between two stars
 * is searched once, from left to right: a repository may bring many long patterns, and a command is long too.
 */
export function matchesGlob(glob: string, text: string): boolean {
  // Most differ in their first character, and to compare that is much cheaper than to split.
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
