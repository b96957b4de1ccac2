import { CLONE_LIMITS } from '../../../contracts/git-source.ts'
import { FILE_LIMITS } from '../../../contracts/limits.ts'
import { messageOf } from '../../kit/errors.ts'
import { parseMemberName } from '../../workspace/parse-path.ts'

export interface ListedLink {
  readonly id: string
  readonly path: string
}

/** A tree that cannot be in a workspace. */
export class UnfitTree extends Error {
  readonly reason: 'too-large' | 'link'
  constructor(message: string, { reason, cause }: { reason: UnfitTree['reason']; cause?: unknown }) {
    super(message, { cause })
    this.reason = reason
  }
}

const LINK = '120000'
const SUBMODULE = '160000'
const MAX_PENDING_BYTES = 65_536

/**
 * Reads `git ls-tree -r -l -z` piece by piece. Throws `UnfitTree` as soon as a limit of a workspace is exceeded, because a
 * small repository can describe more files than a disk can hold.
 */
export class TreeListing {
  files = 0
  bytes = 0
  submodules = 0
  readonly links: ListedLink[] = []
  #pending: Buffer = Buffer.alloc(0)

  push(piece: Uint8Array): void {
    let rest = Buffer.concat([this.#pending, piece])
    for (let end = rest.indexOf(0); end >= 0; end = rest.indexOf(0)) {
      this.#add(rest.subarray(0, end).toString('utf8'))
      rest = rest.subarray(end + 1)
    }
    if (rest.length > MAX_PENDING_BYTES)
      throw new UnfitTree('The repository has a path that is too long.', { reason: 'link' })
    this.#pending = Buffer.from(rest)
  }

  /** `mode type id size TAB path`; the size of a submodule is `-`. */
  #add(record: string): void {
    const tab = record.indexOf('\t')
    const [mode = '', , id = '', size = ''] = record.slice(0, tab).split(/ +/)
    const path = record.slice(tab + 1)
    if (mode === SUBMODULE) {
      this.submodules += 1
      return
    }
    requireName(path)
    this.files += 1
    this.bytes += Number(size)
    if (this.files > CLONE_LIMITS.maxFiles)
      throw new UnfitTree(`The commit has more than ${CLONE_LIMITS.maxFiles} files.`, { reason: 'too-large' })
    if (this.bytes > CLONE_LIMITS.maxBytes)
      throw new UnfitTree(`The files of the commit have more than ${CLONE_LIMITS.maxBytes} bytes.`, {
        reason: 'too-large',
      })
    if (mode === LINK) this.#addLink({ id, path }, Number(size))
  }

  #addLink(link: ListedLink, size: number): void {
    if (size > FILE_LIMITS.maxPathBytes)
      throw new UnfitTree(`The target of the link ${JSON.stringify(link.path)} is too long.`, {
        reason: 'link',
      })
    this.links.push(link)
    if (this.links.length > CLONE_LIMITS.maxLinks)
      throw new UnfitTree(`The commit has more than ${CLONE_LIMITS.maxLinks} symbolic links.`, {
        reason: 'too-large',
      })
  }
}

/** The rules for names in an uploaded archive. */
function requireName(path: string): void {
  try {
    parseMemberName(path)
  } catch (error) {
    const message = `A file of the repository cannot be in a workspace: ${messageOf(error)}.`
    throw new UnfitTree(message, { reason: 'link', cause: error })
  }
}
