import { errnoOf } from '../../kit/errors.ts'
import { parseMemberName } from '../parse-path.ts'
import { inParent, type Tree } from '../tree.ts'
import { filledArchive } from './add-entry.ts'
import { ArchiveCounter } from './archive-counter.ts'
import { coalesce } from './coalesce.ts'
import { type PackOptions, packMember } from './pack.ts'
import { foundAt, type Member, memberOf, type WalkOptions, walkMembers } from './walk-members.ts'

const PIECE_BYTES = 65_536

/** A workspace. An archive gets the listed paths of it, or everything. */
export interface Listed {
  readonly tree: Tree
  /** @default everything */
  readonly paths?: readonly string[]
}

/** One entry. Undefined if it does not exist, or if an archive cannot contain it. */
export function memberAt(tree: Tree, text: string, options: WalkOptions): Member | undefined {
  const path = parseMemberName(text)
  try {
    const found = inParent(tree, path, (directory, name) => foundAt(directory, name, path))
    return found && memberOf(found, options)
  } catch (error) {
    if (GONE.has(errnoOf(error) ?? '')) return undefined
    throw error
  }
}

/** A folder on the way is missing, is a file, or is a link. */
const GONE: ReadonlySet<string> = new Set(['ENOENT', 'ENOTDIR', 'ELOOP'])

/** Packs the listed entries of workspaces into one archive. An entry that disappeared since it was listed is omitted. */
export function packListed(lists: readonly Listed[], options: PackOptions): AsyncIterable<Uint8Array> {
  const counter = new ArchiveCounter(options.limits)
  return coalesce(
    filledArchive(async (archive) => {
      for (const { tree, paths } of lists) {
        const members = paths ? listedMembers(tree, paths, options) : walkMembers(tree, options)
        for await (const member of members) {
          options.signal?.throwIfAborted()
          await packMember({ tree, options, counter, archive }, member)
        }
      }
    }),
    PIECE_BYTES,
  )
}

function* listedMembers(tree: Tree, paths: readonly string[], options: WalkOptions): Generator<Member> {
  for (const path of paths) {
    const member = memberAt(tree, path, options)
    if (member) yield member
  }
}
