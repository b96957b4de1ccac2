import { structuredPatch } from 'diff'
import type { FileVersion } from '../../../../contracts/results.ts'

export interface FilePair {
  readonly path: string
  /** The previous path of a renamed file. */
  readonly from?: string
  readonly before?: FileVersion | undefined
  readonly after?: FileVersion | undefined
}

/** Content of both sides. Undefined if it was too large to compare. */
export interface Contents {
  readonly before: Buffer | undefined
  readonly after: Buffer | undefined
}

export interface FilePatch {
  /** One character per byte, so that text in any encoding stays unchanged. */
  readonly text: string
  /** Undefined for binary and for large content. */
  readonly additions?: number
  readonly deletions?: number
}

const MODES = { file: '100644', executable: '100755', link: '120000' } as const
const CONTEXT = 3
/** Beyond it, a file is shown as replaced, so that one pair of files cannot keep the service busy. */
const MAX_COMPARE_MS = 200
/** As git does: a NUL in the first bytes means binary. */
const BINARY_SEARCH_BYTES = 8_000

/** The change of one file in the format of `git diff`. */
export function patchOfFile(pair: FilePair, contents: Contents, maxCompareMs = MAX_COMPARE_MS): FilePatch {
  const { path, from = path, before, after } = pair
  const head = [`diff --git ${quoted(`a/${from}`)} ${quoted(`b/${path}`)}`, ...modeLines(pair)]
  const sides = [
    before ? quoted(`a/${from}`) : '/dev/null',
    after ? quoted(`b/${path}`) : '/dev/null',
  ] as const
  if (before?.sha256 === after?.sha256) return unchanged(head)
  const old = before ? contents.before : EMPTY
  const recent = after ? contents.after : EMPTY
  if (!old || !recent || isBinary(old) || isBinary(recent))
    return { text: linesOf([...head, `Binary files ${sides[0]} and ${sides[1]} differ`]) }
  const hunks = hunksOf([old.toString('latin1'), recent.toString('latin1')], maxCompareMs)
  if (hunks.length === 0) return unchanged(head)
  return {
    text: linesOf([...head, `--- ${sides[0]}`, `+++ ${sides[1]}`, ...hunks.flatMap(hunkLines)]),
    additions: countOf(hunks, '+'),
    deletions: countOf(hunks, '-'),
  }
}

const EMPTY = Buffer.alloc(0)

const unchanged = (head: readonly string[]): FilePatch => ({
  text: linesOf(head),
  additions: 0,
  deletions: 0,
})

const hunkLines = ({ oldStart, oldLines, newStart, newLines, lines }: Hunk): string[] => [
  `@@ -${range(oldStart, oldLines)} +${range(newStart, newLines)} @@`,
  ...lines,
]

const countOf = (hunks: readonly Hunk[], sign: string): number =>
  hunks.reduce((sum, { lines }) => sum + lines.filter((line) => line[0] === sign).length, 0)

const linesOf = (lines: readonly string[]) => lines.map((line) => `${line}\n`).join('')

function modeLines({ path, from, before, after }: FilePair): string[] {
  if (!before) return [`new file mode ${MODES[after?.mode ?? 'file']}`]
  if (!after) return [`deleted file mode ${MODES[before.mode]}`]
  return [
    ...(before.mode === after.mode
      ? []
      : [`old mode ${MODES[before.mode]}`, `new mode ${MODES[after.mode]}`]),
    ...(from === undefined
      ? []
      : ['similarity index 100%', `rename from ${quoted(from)}`, `rename to ${quoted(path)}`]),
  ]
}

/** An empty side begins at line 0. */
const range = (start: number, lines: number) =>
  lines === 0 ? `${start === 1 ? 0 : start},0` : `${start},${lines}`

type Hunk = { oldStart: number; oldLines: number; newStart: number; newLines: number; lines: string[] }

function hunksOf([before, after]: readonly [string, string], timeout: number): Hunk[] {
  const options = { context: CONTEXT, timeout }
  const patch = structuredPatch('', '', before, after, '', '', options)
  return patch?.hunks ?? [replacement(before, after)]
}

const END = '\\ No newline at end of file'

function replacement(before: string, after: string): Hunk {
  const side = (text: string, sign: string) => {
    const lines = text.split('\n')
    const isEnded = lines.at(-1) === ''
    if (isEnded) lines.pop()
    return {
      count: lines.length,
      lines: [...lines.map((line) => `${sign}${line}`), ...(isEnded ? [] : [END])],
    }
  }
  const [old, recent] = [side(before, '-'), side(after, '+')]
  return {
    ...{ oldStart: 1, oldLines: old.count, newStart: 1, newLines: recent.count },
    lines: [...old.lines, ...recent.lines],
  }
}

const isBinary = (content: Buffer) => content.subarray(0, BINARY_SEARCH_BYTES).includes(0)

const ESCAPES: Readonly<Record<string, string>> = {
  '\n': '\\n',
  '\t': '\\t',
  '\r': '\\r',
  '"': '\\"',
  '\\': '\\\\',
}

/** A path as git writes it: quoted if it contains a quote, a backslash or a control character. */
function quoted(path: string): string {
  const bytes = Buffer.from(path).toString('latin1')
  if (!/[\u0000-\u001f"\\\u007f]/.test(bytes)) return bytes
  const escaped = bytes.replace(
    /[\u0000-\u001f"\\\u007f]/g,
    (character) => ESCAPES[character] ?? `\\${character.charCodeAt(0).toString(8).padStart(3, '0')}`,
  )
  return `"${escaped}"`
}
