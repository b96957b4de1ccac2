import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { cacheRoot } from '../build/tool-cache.ts'

/** The folder that is mounted as `/tmp` in the nodes and in the controller-manager. */
export function sharedTemporaryFolder(folder: string): string {
  const path = join(folder, 'tmp')
  mkdirSync(path, { mode: 0o1777, recursive: true })
  return path
}

/**
 * Shell commands that mount a cluster's own folder over `/tmp` in a mount namespace. The host-path provisioner uses a
 * fixed path below `/tmp`, so this gives each cluster its own volumes, which are deleted with it. A program cache below
 * `/tmp` is mounted at its original path.
 */
export function temporaryFolderMounts(folder: string, cache = cacheRoot()): string[] {
  const own = sharedTemporaryFolder(folder)
  const keep = cache.startsWith('/tmp/') ? [bindInto(join(own, cache.slice('/tmp/'.length)), cache)] : []
  return [...keep, `mount --rbind '${own}' /tmp`]
}

function bindInto(place: string, source: string): string {
  return `mkdir -p '${place}' && mount --bind '${source}' '${place}'`
}
