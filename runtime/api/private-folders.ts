import { realpath } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { SandboxError } from '../kit/errors.ts'
import { sealKeyFolder } from '../state-folder/folder-seal.ts'
import type { ApiConfig } from './config.ts'
import { isInside, showsSandboxes } from './runs/admit/workspace-admission.ts'

/** Real path of a folder that may not exist yet. Links in its existing part are resolved. */
const realPlace = (path: string): Promise<string> =>
  realpath(path).catch(async () => {
    const above = dirname(path)
    return above === path ? path : join(await realPlace(above), basename(path))
  })

/**
 * Real paths of the folders with keys of the service and its user, and of the files with credentials. Commands in
 * sandboxes must not see them.
 */
export const privateFoldersOf = (
  { privateFolders, home }: ApiConfig,
  credentialFiles: readonly string[],
): Promise<string[]> =>
  Promise.all([...privateFolders, sealKeyFolder(home), ...credentialFiles].map(realPlace))

/** A folder of this machine that commands would see, and the setting that names it. */
type Shown = { readonly path: string; readonly by: string }

/** Real path of the folder for the local provider's sandboxes. */
export const temporaryFolder = (): Promise<string> => realPlace(tmpdir())

/** Throws if a folder that commands would see contains a private folder, or is inside one. */
export async function refuseToShow(
  shown: readonly Shown[],
  privateFolders: readonly string[],
): Promise<void> {
  const temporary = await temporaryFolder()
  for (const { path, by } of shown) {
    const real = await realPlace(path)
    if (showsSandboxes(real, temporary))
      throw new SandboxError(
        'invalid_config',
        `${by}: ${path} contains or is inside a folder of running sandboxes, which are in ${temporary}; commands of agents must not see those`,
      )
    const held = privateFolders.find((folder) => isInside(folder, real) || isInside(real, folder))
    if (held === undefined) continue
    throw new SandboxError(
      'invalid_config',
      `${by}: ${path} contains or is inside ${held}, a folder for keys of the service and its user, which commands of agents must not see`,
    )
  }
}
