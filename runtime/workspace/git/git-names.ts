/** Code points that HFS+ ignores in names, so that a name with them means the same file. */
const IGNORED_BY_HFS = /[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]/g

/**
 * Whether a name is `.git` to some file system: without regard to case, with the characters that HFS+ ignores, as
 * NTFS shortens it, or with what NTFS cuts off. Git refuses the same names in trees.
 */
export function isGitName(name: string): boolean {
  const [core = ''] = name.replace(IGNORED_BY_HFS, '').split(/[:\\]/)
  return ['.git', 'git~1'].includes(core.replace(/[. ]+$/, '').toLowerCase())
}

/** Appended to what a run left behind and git would take for a repository. */
export const HELD_SUFFIX = '.agentweaver-held'

/** Whether a name is git's own, or was until a run was kept from leaving it. */
export const isGitOrHeldName = (name: string): boolean =>
  isGitName(name.replace(/\.agentweaver-held(?:-\d+)?$/, ''))

/**
 * Whether a folder with these names is a git directory to git, which looks for `HEAD` beside `objects` and `refs`, or
 * beside `commondir`, which names the place of the other two.
 */
export function isGitDirectory(names: Iterable<string>): boolean {
  const folded = new Set([...names].map((name) => name.toLowerCase()))
  return folded.has('head') && (folded.has('commondir') || (folded.has('objects') && folded.has('refs')))
}
