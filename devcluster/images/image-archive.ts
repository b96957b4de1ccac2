import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, statSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import { runCommand } from '../host/run-command.ts'
import { dropUnused } from './drop-unused.ts'
import type { ImageSpec } from './image-spec.ts'
import { writeImages } from './oci-layout.ts'

/**
 * An archive of one image for containerd to import. It comes from the cache if none of its source files has changed.
 */
export async function imageArchive(cacheRoot: string, spec: ImageSpec): Promise<string> {
  const folder = join(cacheRoot, 'images')
  const name = spec.reference.replace(/[^a-z0-9]+/g, '-')
  const archive = join(folder, `${name}-${inputKey(spec)}.tar`)
  mkdirSync(folder, { recursive: true })
  // Every clone has its own Node binary, so without this each clone would leave an archive behind for ever.
  dropUnused(folder, `${name}-`)
  if (existsSync(archive)) {
    utimesSync(archive, new Date(), new Date())
    return archive
  }
  const temporary = mkdtempSync(join(folder, 'layout-'))
  try {
    await writeImages(join(temporary, 'layout'), [spec])
    await runCommand(['tar', '-C', join(temporary, 'layout'), '-cf', join(temporary, 'archive.tar'), '.'])
    renameSync(join(temporary, 'archive.tar'), archive)
  } finally {
    rmSync(temporary, { recursive: true, force: true })
  }
  return archive
}

/** Much cheaper than the image digest: compares sources by size, modification time and inode. */
function inputKey(spec: ImageSpec): string {
  const sources = spec.layers.flat().map((entry) => {
    if (entry.kind !== 'file') return ''
    const { size, mtimeMs, ino } = statSync(entry.source)
    return [size, mtimeMs, ino].join()
  })
  return createHash('sha256')
    .update(JSON.stringify([spec, sources]))
    .digest('hex')
    .slice(0, 24)
}
