import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { preparePrivateFolder } from '../../runtime/state-folder/prepare-folder.ts'
import { Distrust, openPrivateFolder } from '../../runtime/state-folder/private-folder.ts'
import { replaceFile } from '../../runtime/state-folder/replace-file.ts'
import { CliError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'

/** One file for each service, named by its origin: two logins at once do not lose each other's key. */
const fileName = (origin: string): string => encodeURIComponent(origin)

const folderOf = (configDir: string): string => join(configDir, 'logins')

/** The file with the key that the user gave for a service. */
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

/** Keeps a key for its user alone. */
export async function writeLogin(configDir: string, origin: string, apiKey: string): Promise<void> {
  await preparePrivateFolder(folderOf(configDir))
  await replaceFile(loginFile(configDir, origin), `${apiKey}\n`)
}

/** Forgets the key of a service; false if there was none. */
export function removeLogin(configDir: string, origin: string): boolean {
  if (readLogin(configDir, origin) === undefined) return false
  rmSync(loginFile(configDir, origin))
  return true
}
