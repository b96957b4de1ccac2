import { GIT_REF } from '../../../contracts/git-source.ts'

/** What to fetch, and what to check out. */
export interface Wanted {
  /** A commit, or a ref and where it is stored. */
  readonly refspec: string
  /** What names the commit after the fetch. */
  readonly revision: string
  /** The branch to create. */
  readonly branch?: string
}

const COMMIT = /^[0-9a-f]{40}(?:[0-9a-f]{24})?$/
export const isRefName = (text: string): boolean => GIT_REF.test(text)

/** Lines of `git ls-remote --symref`: `ref: NAME TAB HEAD`, and `COMMIT TAB NAME`. */
function parse(listing: string) {
  const names = new Set<string>()
  let head: string | undefined
  for (const line of listing.split('\n')) {
    const [left = '', name = ''] = line.split('\t')
    if (name === 'HEAD' && left.startsWith('ref: refs/heads/')) head = left.slice('ref: refs/heads/'.length)
    else if (COMMIT.test(left)) names.add(name)
  }
  return { names, head }
}

/** The patterns of `git ls-remote` for a ref. */
export const patternsOf = (ref: string | undefined): string[] =>
  ref === undefined ? ['HEAD'] : ref.startsWith('refs/') ? [ref] : [`refs/heads/${ref}`, `refs/tags/${ref}`]

export const isCommit = (ref: string): boolean => COMMIT.test(ref)

/** Finds a ref in the listing of a server. Undefined if the server does not have it. */
export function wantedOf(listing: string, ref: string | undefined): Wanted | undefined {
  const { names, head } = parse(listing)
  if (ref === undefined) {
    if (head !== undefined && isRefName(head)) return branchWanted(head)
    return names.has('HEAD')
      ? { refspec: '+HEAD:refs/remotes/origin/HEAD', revision: 'refs/remotes/origin/HEAD' }
      : undefined
  }
  const found = patternsOf(ref).find((name) => names.has(name))
  if (found === undefined) return undefined
  if (found.startsWith('refs/heads/')) return branchWanted(found.slice('refs/heads/'.length))
  return { refspec: `+${found}:${found}`, revision: found }
}

const branchWanted = (branch: string): Wanted => {
  const tracking = `refs/remotes/origin/${branch}`
  return { refspec: `+refs/heads/${branch}:${tracking}`, revision: tracking, branch }
}
