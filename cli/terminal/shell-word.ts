const PLAIN = /^[\w@%+=:,./-]+$/
/** At the start of a command, a shell takes this for the value of a variable. */
const ASSIGNMENT = /^\w+\+?=/

/**
 * Quotes a word for a POSIX shell, so that a person can read and copy it. `shell-quote` also escapes `:`, `@` and `=`, and
 * had three command injections (CVE-2016-10541, CVE-2021-42740, CVE-2026-9277).
 */
export const quoteWord = (word: string): string =>
  PLAIN.test(word) && !ASSIGNMENT.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`
