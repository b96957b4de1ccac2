const CONTEXT = 2

interface Line {
  readonly sign: ' ' | '-' | '+'
  readonly text: string
}

/**
 * A diff of two texts: `-` for removed and `+` for added lines, with some context lines and `…` between
 * hunks.
 */
export function lineDiff(from: string, to: string): string[] {
  const lines = align(splitLines(from), splitLines(to))
  const isNear = (index: number) =>
    lines.slice(Math.max(0, index - CONTEXT), index + CONTEXT + 1).some(({ sign }) => sign !== ' ')
  return lines.flatMap(({ sign, text }, index) => {
    if (isNear(index)) return [`${sign} ${text}`]
    return index > 0 && isNear(index - 1) ? ['…'] : []
  })
}

function splitLines(text: string): string[] {
  const lines = text.split('\n')
  return lines.at(-1) === '' ? lines.slice(0, -1) : lines
}

type Lines = readonly string[]
/** Length of the longest common subsequence of the rests of both texts, from these lines on. */
type RestLength = (i: number, j: number) => number

function align(from: Lines, to: Lines): Line[] {
  const rest = commonRest(from, to)
  const lines: Line[] = []
  let [i, j] = [0, 0]
  while (i < from.length || j < to.length) {
    const line = nextLine([from[i], to[j]], rest(i + 1, j) >= rest(i, j + 1))
    lines.push(line)
    if (line.sign !== '+') i++
    if (line.sign !== '-') j++
  }
  return lines
}

function nextLine([a, b]: readonly (string | undefined)[], isShorterWithoutOld: boolean): Line {
  if (a !== undefined && a === b) return { sign: ' ', text: a }
  if (a !== undefined && (b === undefined || isShorterWithoutOld)) return { sign: '-', text: a }
  return { sign: '+', text: b ?? '' }
}

/** A full table is affordable, because rendered files have some hundreds of lines. */
function commonRest(from: Lines, to: Lines): RestLength {
  const width = to.length + 1
  const table = new Uint32Array((from.length + 1) * width)
  const rest: RestLength = (i, j) => table[i * width + j] ?? 0
  for (let i = from.length - 1; i >= 0; i--) {
    for (let j = to.length - 1; j >= 0; j--) {
      table[i * width + j] =
        from[i] === to[j] ? rest(i + 1, j + 1) + 1 : Math.max(rest(i + 1, j), rest(i, j + 1))
    }
  }
  return rest
}
