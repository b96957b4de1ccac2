import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseAllDocuments } from 'yaml'
import {
  CONTROLLER_FILES,
  CONTROLLER_VERSION,
  type KubeManifest,
  type LockedFile,
} from '../model/controller-release.ts'

/** Where `npm run controller -- fetch` puts the files, below the project; git ignores it. */
export const RELEASE_FOLDER = `.agentweaver/controller/${CONTROLLER_VERSION}`

/**
 * The files of the pinned release are missing or have the wrong checksum. The message is for the person who runs the
 * program.
 */
export class ReleaseError extends Error {
  override readonly name = 'ReleaseError'
}

/** Objects of the pinned release from a folder that has its files. The program itself reaches no network for them. */
export async function readRelease(folder: string): Promise<KubeManifest[]> {
  const files = await Promise.all(CONTROLLER_FILES.map((file) => readLocked(file, folder)))
  return files.flatMap((text) =>
    parseAllDocuments(text)
      .map((document) => document.toJS() as KubeManifest | null)
      .filter((object) => object !== null),
  )
}

async function readLocked(file: LockedFile, folder: string): Promise<string> {
  try {
    return verified(file, await readFile(join(folder, file.path)), folder)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    const missing = `The agent-sandbox controller ${CONTROLLER_VERSION} is not in ${folder}: ${file.path} is missing.`
    throw new ReleaseError(`${missing}\n${REMEDY}`, { cause: error })
  }
}

/** Returns the text of a file if its checksum is the pinned one; throws otherwise, for every source of the file. */
export function verified({ path, sha256 }: LockedFile, bytes: Uint8Array, from: string): string {
  const actual = createHash('sha256').update(bytes).digest('hex')
  if (actual === sha256) return new TextDecoder().decode(bytes)
  throw new ReleaseError(
    `${path} of ${from} is not the file of agent-sandbox ${CONTROLLER_VERSION}: its sha256 is ${actual}, not ${sha256}.\n${REMEDY}`,
  )
}

const REMEDY =
  'Fetch the files with "npm run controller -- fetch", or name a folder that has them in the stack file: agentweaver:controller, key folder.'
