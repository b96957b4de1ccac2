import { chmod, lstat, mkdir } from 'node:fs/promises'
import { SandboxError } from '../../kit/errors.ts'

/** Makes the folder of the store and the keys, for its owner's eyes alone. A link in its place is refused. */
export async function prepareStateFolder(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 })
  const found = await lstat(path)
  if (!found.isDirectory()) {
    throw new SandboxError('invalid_config', `AGENTWEAVER_STATE_DIR: ${path} must be a folder, not a link`)
  }
  await chmod(path, 0o700)
}
