import * as z from 'zod'
import { FILE_LIMITS } from './limits.ts'

export const MANIFEST_LIMITS = {
  /** One line of a manifest: a path and a link target of `FILE_LIMITS.maxPathBytes`, six characters for a byte. */
  maxLineBytes: 65_536,
  /**
   * A manifest above this size is refused, and the workspace is saved as one archive. About 100,000 files with paths of 200
   * characters. The API needs about ten times this size in memory for a moment.
   */
  maxBytes: 33_554_432,
  /** Contents in one request for a pack. */
  maxPackContents: 4096,
} as const

export const Sha256 = z.string().regex(/^[0-9a-f]{64}$/)

const Path = z.string().min(1).max(FILE_LIMITS.maxPathBytes)
/** Permission bits. Set-user-ID, set-group-ID and sticky bits are never part of a manifest. */
const Mode = z.int().min(0).max(0o777)

/**
 * One line of a workspace manifest. The manifest lists the whole workspace; a folder comes before its contents. Paths are
 * relative to the workspace root.
 */
export const ManifestEntry = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('file'),
    path: Path,
    mode: Mode,
    /** In seconds, as an archive stores it. */
    mtime: z.int().nonnegative(),
    size: z.int().nonnegative(),
    sha256: Sha256,
  }),
  z.strictObject({ kind: z.literal('folder'), path: Path, mode: Mode }),
  z.strictObject({ kind: z.literal('link'), path: Path, target: Path }),
])
export type ManifestEntry = z.infer<typeof ManifestEntry>

/**
 * Body of `POST /workspace/pack`: digests of the last manifest. The response is the content of these files, in this order,
 * without separators: the caller knows every size from the manifest.
 */
export const PackRequest = z.strictObject({
  contents: z.array(Sha256).min(1).max(MANIFEST_LIMITS.maxPackContents),
})
export type PackRequest = z.infer<typeof PackRequest>
