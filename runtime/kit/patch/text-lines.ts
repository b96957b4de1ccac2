/** A line with the terminator it has: `\n`, `\r\n`, or none at the end of a file. */
export interface TextLine {
  readonly text: string
  readonly end: string
}

export function splitLines(text: string): TextLine[] {
  const lines: TextLine[] = []
  for (const match of text.matchAll(/([^\n]*?)(\r?\n|$)/g)) {
    const [whole, content = '', end = ''] = match
    if (whole !== '') lines.push({ text: content, end })
  }
  return lines
}

/** The terminator of most lines; `\n` if no line has one. */
export function dominantTerminator(lines: readonly TextLine[]): string {
  const count = (end: string) => lines.filter((line) => line.end === end).length
  return count('\r\n') > count('\n') ? '\r\n' : '\n'
}
