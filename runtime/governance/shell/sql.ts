import { OUTSIDE, UNKNOWN, WORDS } from './marks.ts'
import type { CommandView } from './view.ts'

/** Flags of database clients that take a statement. */
const STATEMENT_FLAG = /^(?:-[a-zA-Z]*[cCeqQ]|--(?:command|execute|query|sql|eval))$/
const HIDDEN = new RegExp(`^[${UNKNOWN}${WORDS}${OUTSIDE}]`)

/**
 * Returns whether a database client runs a statement that destroys data, or a statement that is unknown until
 * it runs.
 */
export function throwsDataAway({ words, texts }: CommandView): boolean {
  const isHidden = words.some((word, i) => STATEMENT_FLAG.test(words[i - 1] ?? '') && HIDDEN.test(word))
  return isHidden || [...words.slice(1).map(withoutFlag), ...texts].some(hasDestructiveStatement)
}

/** Turns `--command=drop …` and `-cdrop …` into `drop …`. */
const withoutFlag = (word: string) => word.replace(/^(?:--[a-z-]+=|-[a-zA-Z]*[ceqQ](?=[a-zA-Z]))/, '')

/** Comments and string literals, which are not part of a statement. */
const NO_PART = /--[^\n]*|\/\*[\s\S]*?\*\/|'(?:[^']|'')*'/g

const DROPS = /(?:^|^begin\s+|\$\w*\$\s*)(?:drop\s+\w|truncate\b)|^alter\b[\s\S]*\bdrop\b/i
const CHANGES_ROWS = /\bdelete\s+from\b|^update\b[\s\S]*\bset\b/i
const ALWAYS_TRUE = /\bwhere\s+(?:\(?\s*(?:true|1|not\s+false|(\w+)\s*=\s*\1)\s*\)?)\s*$/i

function hasDestructiveStatement(text: string): boolean {
  return text
    .replace(NO_PART, ' ')
    .split(';')
    .map((statement) => statement.trim())
    .some(
      (statement) =>
        DROPS.test(statement) ||
        (CHANGES_ROWS.test(statement) && (!/\bwhere\b/i.test(statement) || ALWAYS_TRUE.test(statement))),
    )
}
