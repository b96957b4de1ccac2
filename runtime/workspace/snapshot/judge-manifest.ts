import { MANIFEST_LIMITS, ManifestEntry } from '../../../contracts/workspace-manifest.ts'
import { ArchiveCounter } from '../archive/archive-counter.ts'
import type { ArchiveLimits } from '../archive/archive-summary.ts'
import { staysInside } from '../archive/link-target.ts'
import { FileFault, faultFrom } from '../file-fault.ts'
import { parentOf, parseMemberName } from '../parse-path.ts'

/**
 * Parses a manifest that a sandbox sent, line by line. Throws a FileFault if an archive of these entries could not be
 * unpacked: a path that is not below the root, an entry that exists twice or whose folder is not listed before it, a link
 * that leads out, or more entries or bytes than the limits permit.
 */
export function* judgeManifest(text: string, limits: ArchiveLimits): Generator<ManifestEntry> {
  const kinds = new Map<string, ManifestEntry['kind']>([['.', 'folder']])
  const sizes = new Map<string, number>()
  const counter = new ArchiveCounter(limits)
  for (const line of linesOf(text)) {
    const entry = entryOf(line)
    counter.addEntry(shown(entry.path))
    refuseMisplaced(entry, kinds)
    kinds.set(entry.path, entry.kind)
    if (entry.kind === 'file') {
      counter.addBytes(shown(entry.path), entry.size)
      refuseSize(entry, sizes)
    }
    yield entry
  }
}

function* linesOf(text: string): Generator<string> {
  for (let start = 0; start < text.length; ) {
    const end = text.indexOf('\n', start)
    if (end === -1 || end - start > MANIFEST_LIMITS.maxLineBytes)
      throw new FileFault('io_error', 'the manifest has a line that is too long or not complete')
    yield text.slice(start, end)
    start = end + 1
  }
}

function entryOf(line: string): ManifestEntry {
  try {
    return ManifestEntry.parse(JSON.parse(line))
  } catch (error) {
    throw faultFrom(error, 'io_error', `the manifest has a malformed line: ${line.slice(0, 200)}`)
  }
}

function refuseSize(
  { path, sha256, size }: Extract<ManifestEntry, { kind: 'file' }>,
  sizes: Map<string, number>,
): void {
  if ((sizes.get(sha256) ?? size) !== size) throw refusal(path, 'has the digest of a file of another size')
  sizes.set(sha256, size)
}

function refuseMisplaced(entry: ManifestEntry, kinds: ReadonlyMap<string, ManifestEntry['kind']>): void {
  const path = parseMemberName(entry.path)
  if (path.text !== entry.path || path.names.length === 0)
    throw refusal(entry.path, 'is not in its shortest form')
  if (kinds.has(entry.path)) throw refusal(entry.path, 'is listed twice')
  if (kinds.get(parentOf(path).text) !== 'folder')
    throw refusal(entry.path, 'is not in a folder that is listed before it')
  if (entry.kind === 'link' && !staysInside(entry.target, path.names.length - 1))
    throw refusal(entry.path, 'is a link that leads out of the workspace')
}

const refusal = (path: string, why: string) => new FileFault('denied', `the manifest: ${shown(path)} ${why}`)

const shown = (path: string): string => JSON.stringify(path.slice(0, 200))
