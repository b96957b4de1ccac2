import { chmodSync, type FSWatcher, mkdirSync, watch } from 'node:fs'
import { join } from 'node:path'
import { sharedTemporaryFolder } from '../host/temporary-folder.ts'

/** The provisioner's fixed place below `/tmp`. */
export const volumesFolder = (folder: string) => join(sharedTemporaryFolder(folder), 'hostpath_pv')

/**
 * Lets every user write into new volumes. A real volume is handed to the pod's `fsGroup` by the kubelet; host paths
 * are left out of that, and a sandbox that is not root could not use its own.
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
    // The event was its removal.
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
}
