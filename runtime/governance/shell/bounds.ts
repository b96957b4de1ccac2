import { EXEC_LIMITS } from '../../../contracts/exec.ts'

/** Maximum depth of a syntax tree. Hand-written scripts stay below a tenth of it. */
export const MAX_DEPTH = 200
/** Maximum number of nodes in a syntax tree. A hand-written script of 64 KiB has about a tenth of it. */
export const MAX_NODES = 20_000
/** Maximum nesting of scripts inside scripts (`sh -c "sh -c …"`). */
export const MAX_SCRIPT_DEPTH = 6
/** Maximum number of scripts analysed per request. */
export const MAX_SCRIPTS = 400
/** Maximum number of function calls that are followed. */
export const MAX_CALLS = 64
/** Maximum number of commands judged per request. */
export const MAX_COMMANDS = 2000

/**
 * Maximum number of tokens for which the grammar's time or stack grows faster than the length of the text.
 * Above these counts, parsing was measured to take seconds or to abort.
 */
const MOST: readonly (readonly [string, number])[] = [
  ['|', 1000],
  ['<<', 64],
  ['`', 500],
]
/** Maximum number of brackets that are open at the same time. */
const MOST_OPEN = 64

/**
 * Returns why a text must not be passed to the grammar, or undefined. Keeps parse time proportional to the
 * length of the text.
 */
export function boundsProblem(script: string): string | undefined {
  if (script.length > EXEC_LIMITS.maxCommandBytes) return 'it is too long to be read'
  for (const [piece, most] of MOST) {
    if (occurrences(script, piece) > most) return `it has more than ${most} "${piece}"`
  }
  return deepestOpen(script) > MOST_OPEN ? `it has more than ${MOST_OPEN} open brackets` : undefined
}

function occurrences(text: string, piece: string): number {
  let count = 0
  for (let at = text.indexOf(piece); at >= 0; at = text.indexOf(piece, at + piece.length)) count++
  return count
}

function deepestOpen(text: string): number {
  let open = 0
  let deepest = 0
  for (let i = 0; i < text.length; i++) {
    const c = text[i]
    if (c === '(' || c === '[') open++
    else if (open > 0 && (c === ')' || c === ']')) open--
    if (open > deepest) deepest = open
  }
  return deepest
}
