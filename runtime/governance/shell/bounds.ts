import { EXEC_LIMITS } from '../../../contracts/exec.ts'

/** Deepest syntax tree that is read; hand-written shell stays under a tenth of it. */
export const MAX_DEPTH = 200
/** Most nodes of a syntax tree that are looked at; a script of 64 KiB that people write has a tenth of it. */
export const MAX_NODES = 20_000
/** Deepest chain of scripts inside scripts (`sh -c "sh -c …"`). */
export const MAX_SCRIPT_DEPTH = 6
/** Most scripts of one request that are read, one inside another or beside it. */
export const MAX_SCRIPTS = 400
/** Most calls of functions that are followed. */
export const MAX_CALLS = 64
/** Most commands of one request that are judged one by one. */
export const MAX_COMMANDS = 2000

/**
 * Most pieces of the kinds whose number makes the grammar's own time or stack grow faster than the text: above
 * them it was measured to take seconds, or to abort.
 */
const MOST: readonly (readonly [string, number])[] = [
  ['|', 1000],
  ['<<', 64],
  ['`', 500],
]
/** Opening brackets that are not closed again, at any point of the text. */
const MOST_OPEN = 64

/** Why a text is not given to the grammar at all, so that its time stays in proportion to the text. */
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
