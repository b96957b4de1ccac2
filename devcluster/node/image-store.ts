import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, statSync, utimesSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { runCommand } from '../host/run-command.ts'
import { dropUnused } from '../images/drop-unused.ts'

/** The databases of the images below containerd's root. containerd changes them in place, so each node has a copy. */
const DATABASES = [
  'io.containerd.metadata.v1.bolt/meta.db',
  'io.containerd.snapshotter.v1.overlayfs/metadata.db',
]
/** Blobs and unpacked layers. They are deleted but never changed, so nodes share them by hard links. */
const TREES = ['io.containerd.content.v1.content/blobs', 'io.containerd.snapshotter.v1.overlayfs/snapshots']

export interface ImageStore {
  readonly cacheRoot: string
  /** Archives of the images, each named after its content. */
  readonly archives: readonly string[]
  /** The containerd that unpacks the archives, at a path that contains its version. */
  readonly containerd: string
  /** containerd's root folder. It must be empty. */
  readonly root: string
  /** Unpacks the archives into `root`. containerd must have ended when it returns. */
  unpack(): Promise<void>
}

/**
 * Puts unpacked images below containerd's root. It links them from an earlier node with the same images, or else
 * unpacks them, which writes 1.5 GB. If cache and node are on different file systems, it always unpacks.
 */
export async function fillImageStore(store: ImageStore): Promise<void> {
  const { cacheRoot, root, unpack } = store
  const folder = join(cacheRoot, 'unpacked')
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  // Every clone has its own images, so without this each clone would leave unpacked images behind for ever.
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
    // The entry was deleted while it was copied, or is incomplete.
    rmSync(kept, { recursive: true, force: true })
    for (const part of [...DATABASES, ...TREES]) rmSync(join(root, part), { recursive: true, force: true })
    return false
  }
}

/**
 * A rename is atomic, so no process finds a partial store. If two nodes are first at the same time, one store is kept.
 */
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
