/** Placeholder for text that is known only when the command runs: one word, or a part of one. */
export const UNKNOWN = '\uE000'
/** Placeholder for any number of words that are known only when the command runs. */
export const WORDS = '\uE001'
/**
 * Placeholder for a value that comes from outside the script and is assumed not to be a flag: a variable that
 * the script does not set, a number, or the output of a command that lists paths, numbers or names.
 */
export const OUTSIDE = '\uE002'
/** Marks where the shell splits an expanded value into words. */
export const SPLIT = '\u0001'
