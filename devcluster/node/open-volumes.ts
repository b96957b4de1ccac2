import { chmodSync, type FSWatcher, mkdirSync, watch } from 'node:fs'
import { join } from 'node:path'
import { sharedTemporaryFolder } from '../host/temporary-folder.ts'

/** The fixed folder of the provisioner below `/tmp`. */
export const volumesFolder = (folder: string) => join(sharedTemporaryFolder(folder), 'hostpath_pv')

/**
 * Makes new volumes writable for all users. The kubelet gives real volumes to the pod's `fsGroup`, but not host paths,
 * so a non-root sandbox could not write to its volume.
 */
export function openVolumes(folder: string): FSWatcher {
  const volumes = volumesFolder(folder)
  mkdirSync(volumes, { recursive: true })
  return watch(volumes, (_event, name) => {
    if (name) openVolume(join(volumes, name))
  })
}

function openVolume(path: string): void {
  try {
    chmodSync(path, 0o777)
  } catch (error) {
    // The event was a deletion.
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
}
