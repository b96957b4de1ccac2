import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { preparePrivateFolder } from '../../runtime/state-folder/prepare-folder.ts'
import { Distrust, openPrivateFolder } from '../../runtime/state-folder/private-folder.ts'
import { replaceFile } from '../../runtime/state-folder/replace-file.ts'
import { CliError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'

/** One file per service, named by its origin, so that two concurrent logins cannot overwrite each other's key. */
const fileName = (origin: string): string => encodeURIComponent(origin)

const folderOf = (configDir: string): string => join(configDir, 'logins')

export const loginFile = (configDir: string, origin: string): string =>
  join(folderOf(configDir), fileName(origin))

export function readLogin(configDir: string, origin: string): string | undefined {
  try {
    using folder = openPrivateFolder(folderOf(configDir))
    return folder?.readFile(fileName(origin))?.trim()
  } catch (error) {
    if (!(error instanceof Distrust)) throw error
    throw new CliError(error.message, {
      status: EXIT.refused,
      hint: `Remove it and log in again: agentweaver login --url ${origin}`,
      cause: error,
    })
  }
}

/** Saves a key in a file that only the user can read. */
export async function writeLogin(configDir: string, origin: string, apiKey: string): Promise<void> {
  await preparePrivateFolder(folderOf(configDir))
  await replaceFile(loginFile(configDir, origin), `${apiKey}\n`)
}

/** Deletes the saved key of a service. Returns false if there was none. */
export function removeLogin(configDir: string, origin: string): boolean {
  if (readLogin(configDir, origin) === undefined) return false
  rmSync(loginFile(configDir, origin))
  return true
}
