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
 * Shell commands that mount a cluster's own folder over `/tmp`, in a mount namespace. The host-path provisioner creates
 * its folders at a fixed path below `/tmp`; with the mount each cluster has its own, and they are removed with the
 * cluster. Programs in a cache below `/tmp` stay at their path.
 */
export function temporaryFolderMounts(folder: string, cache = cacheRoot()): string[] {
  const own = sharedTemporaryFolder(folder)
  const keep = cache.startsWith('/tmp/') ? [bindInto(join(own, cache.slice('/tmp/'.length)), cache)] : []
  return [...keep, `mount --rbind '${own}' /tmp`]
}

function bindInto(place: string, source: string): string {
  return `mkdir -p '${place}' && mount --bind '${source}' '${place}'`
}
