/** Stands in a word's text where only the running shell knows what comes there: one word, or a part of one. */
export const UNKNOWN = '\uE000'
/** Stands where only the running shell knows which words come there, and how many. */
export const WORDS = '\uE001'
/**
 * Stands for what comes from outside the script and what no flag is: a variable that the script does not set, a
 * number, the output of a command that lists paths or numbers.
 */
export const OUTSIDE = '\uE002'
/** Stands where the shell splits what it expanded into words. */
export const SPLIT = '\u0001'
