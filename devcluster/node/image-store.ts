import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, statSync, utimesSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { runCommand } from '../host/run-command.ts'
import { dropUnused } from '../images/drop-unused.ts'

/** What containerd holds of its images below its root. Databases are written in place: each node has its own copy. */
const DATABASES = [
  'io.containerd.metadata.v1.bolt/meta.db',
  'io.containerd.snapshotter.v1.overlayfs/metadata.db',
]
/** Blobs and unpacked layers are never changed, only removed: nodes share them by links. */
const TREES = ['io.containerd.content.v1.content/blobs', 'io.containerd.snapshotter.v1.overlayfs/snapshots']

export interface ImageStore {
  readonly cacheRoot: string
  /** Archives of the images, each under a name that is made of what is in it. */
  readonly archives: readonly string[]
  /** The containerd that unpacks them, under a name that tells its version. */
  readonly containerd: string
  /** containerd's root folder, which is still empty. */
  readonly root: string
  /** Unpacks the archives into `root`; containerd has ended by then. */
  unpack(): Promise<void>
}

/**
 * Puts unpacked images below containerd's root: by links to those of an earlier node of the same images, or else by
 * unpacking them, which writes a gigabyte and a half. Where cache and node are on different file systems it is always
 * the latter.
 */
export async function fillImageStore(store: ImageStore): Promise<void> {
  const { cacheRoot, root, unpack } = store
  const folder = join(cacheRoot, 'unpacked')
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  // Every clone has images of its own, so without this each would leave them unpacked for ever.
  dropUnused(folder)
  const kept = join(folder, keyOf(store))
  const canLink = statSync(folder).dev === statSync(root).dev
  if (canLink && (await takeFrom(kept, root))) return
  await unpack()
  if (canLink) await keep(root, kept)
}

function keyOf({ archives, containerd }: ImageStore): string {
  const inputs = [containerd, ...archives.map((archive) => basename(archive))]
  return createHash('sha256').update(JSON.stringify(inputs)).digest('hex').slice(0, 24)
}

async function takeFrom(kept: string, root: string): Promise<boolean> {
  if (!existsSync(kept)) return false
  try {
    utimesSync(kept, new Date(), new Date())
    await copyStore(kept, root)
    return true
  } catch {
    // It was removed under our hands, or is not whole.
    rmSync(kept, { recursive: true, force: true })
    for (const part of [...DATABASES, ...TREES]) rmSync(join(root, part), { recursive: true, force: true })
    return false
  }
}

/** One rename, so that nobody finds half of it; of two nodes that come first at once, one is kept. */
async function keep(root: string, kept: string): Promise<void> {
  const scratch = mkdtempSync(join(dirname(kept), 'new-'))
  try {
    await copyStore(root, scratch)
    renameSync(scratch, kept)
  } catch (error) {
    rmSync(scratch, { recursive: true, force: true })
    if (!existsSync(kept)) throw error
  }
}

async function copyStore(from: string, to: string): Promise<void> {
  for (const part of [...DATABASES, ...TREES])
    mkdirSync(dirname(join(to, part)), { recursive: true, mode: 0o700 })
  for (const part of DATABASES) await runCommand(['cp', '-a', join(from, part), join(to, part)])
  for (const part of TREES) await runCommand(['cp', '-a', '--link', join(from, part), join(to, part)])
}
