import { MANIFEST_LIMITS, type ManifestEntry } from '../../../../contracts/workspace-manifest.ts'
import type { Location, Locations } from './stored-manifest.ts'

/** A file of at least this size is a content by itself. Smaller ones share a pack, so that 10,000 small files are few rows. */
const SMALL_BYTES = 1_048_576
const PACK_BYTES = 16_777_216
/** Packs with a smaller used share are packed again when there are many, so that few bytes do not keep many packs. */
const LOOSE_BYTES = 4_194_304
const MAX_LOOSE = 16

export type Wanted = { readonly sha256: string; readonly size: number }

export type Plan = {
  /** Contents of the workspace that the last checkpoint has. */
  readonly kept: Locations
  /** Contents that the sandbox must send. Each group becomes one content of the store. */
  readonly groups: readonly (readonly Wanted[])[]
}

/**
 * Decides which contents a checkpoint gets from the sandbox. Only the run's last checkpoint makes a transfer unnecessary:
 * a sandbox that names the digest of a file of another run must still send the file.
 */
export function planPacks(entries: Iterable<ManifestEntry>, last: Locations): Plan {
  const sizes = new Map<string, number>()
  for (const entry of entries)
    if (entry.kind === 'file' && entry.size > 0) sizes.set(entry.sha256, entry.size)
  const kept = new Map<string, Location>()
  for (const [sha256, size] of sizes) {
    const location = last.get(sha256)
    // Another size is a lie about this file or about the last one. The sandbox must send the file again.
    if (location?.size === size) kept.set(sha256, location)
  }
  for (const sha256 of looselyPacked(kept, sizes)) kept.delete(sha256)
  const wanted = [...sizes].flatMap(([sha256, size]) => (kept.has(sha256) ? [] : [{ sha256, size }]))
  return { kept, groups: grouped(wanted) }
}

/** Files in packs that are mostly unused, if there are many such packs. */
function looselyPacked(kept: Locations, sizes: ReadonlyMap<string, number>): string[] {
  const used = new Map<string, number>()
  const small = [...kept].filter(([sha256]) => (sizes.get(sha256) ?? 0) < SMALL_BYTES)
  for (const [sha256, { content }] of small) {
    used.set(content, (used.get(content) ?? 0) + (sizes.get(sha256) ?? 0))
  }
  const loose = new Set([...used].filter(([, bytes]) => bytes < LOOSE_BYTES).map(([content]) => content))
  if (loose.size <= MAX_LOOSE) return []
  return small.filter(([, { content }]) => loose.has(content)).map(([sha256]) => sha256)
}

function grouped(wanted: readonly Wanted[]): Wanted[][] {
  const groups: Wanted[][] = []
  let pack: Wanted[] = []
  let bytes = 0
  for (const one of wanted) {
    if (one.size >= SMALL_BYTES) {
      groups.push([one])
      continue
    }
    if (pack.length === MANIFEST_LIMITS.maxPackContents || bytes + one.size > PACK_BYTES) {
      groups.push(pack)
      pack = []
      bytes = 0
    }
    pack.push(one)
    bytes += one.size
  }
  return pack.length > 0 ? [...groups, pack] : groups
}
