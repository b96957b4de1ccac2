import { chmod, lstat, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { FOLDER_SEAL_FILE } from '../../../contracts/api-env.ts'
import { SandboxError } from '../../kit/errors.ts'
import { folderSeal } from '../../kit/folder-seal.ts'
import { replaceFile } from './replace-file.ts'

/** Makes the folder of the store and the keys, for its owner's eyes alone. A link in its place is refused. */
export async function prepareStateFolder(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 })
  const found = await lstat(path, { bigint: true })
  if (!found.isDirectory()) {
    throw new SandboxError('invalid_config', `AGENTWEAVER_STATE_DIR: ${path} must be a folder, not a link`)
  }
  await chmod(path, 0o700)
  await replaceFile(join(path, FOLDER_SEAL_FILE), folderSeal(found))
}
