import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { cacheRoot } from '../build/tool-cache.ts'

/** The folder that stands for `/tmp` in the nodes and in the controller-manager. */
export function sharedTemporaryFolder(folder: string): string {
  const path = join(folder, 'tmp')
  mkdirSync(path, { mode: 0o1777, recursive: true })
  return path
}

/**
 * Shell commands that put a cluster's own folder in the place of `/tmp`, in a mount namespace. The host-path
 * provisioner makes its folders in a fixed place below `/tmp`; this way each cluster has its own, and they go away with
 * the cluster. Programs that were built into a cache below `/tmp` stay where they are.
 */
export function temporaryFolderMounts(folder: string, cache = cacheRoot()): string[] {
  const own = sharedTemporaryFolder(folder)
  const keep = cache.startsWith('/tmp/') ? [bindInto(join(own, cache.slice('/tmp/'.length)), cache)] : []
  return [...keep, `mount --rbind '${own}' /tmp`]
}

function bindInto(place: string, source: string): string {
  return `mkdir -p '${place}' && mount --bind '${source}' '${place}'`
}
