/** Code points that HFS+ ignores in file names. */
const IGNORED_BY_HFS = /[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]/g

/**
 * Returns whether a file system may treat a name as `.git`: case-insensitively, without the characters that
 * HFS+ ignores, as an NTFS short name, or with the suffixes that NTFS strips. Git rejects the same names in
 * trees.
 */
export function isGitName(name: string): boolean {
  const [core = ''] = name.replace(IGNORED_BY_HFS, '').split(/[:\\]/)
  return ['.git', 'git~1'].includes(core.replace(/[. ]+$/, '').toLowerCase())
}

/** Suffix of renamed git directories that a run left behind. */
export const HELD_SUFFIX = '.agentweaver-held'

/** Returns whether a name is a git name, with or without the suffix of a renamed git directory. */
export const isGitOrHeldName = (name: string): boolean =>
  isGitName(name.replace(/\.agentweaver-held(?:-\d+)?$/, ''))

/**
 * Returns whether git recognises a folder with these names as a git directory: `HEAD` together with either `objects`
 * and `refs`, or `commondir`, which locates the other two.
 */
export function isGitDirectory(names: Iterable<string>): boolean {
  const folded = new Set([...names].map((name) => name.toLowerCase()))
  return folded.has('head') && (folded.has('commondir') || (folded.has('objects') && folded.has('refs')))
}
