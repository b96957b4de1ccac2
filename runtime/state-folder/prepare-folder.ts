import { chmod, lstat, mkdir } from 'node:fs/promises'
import { SandboxError } from '../kit/errors.ts'

/** Creates a folder that only its owner can access. Rejects a link in its place, and a folder of another user. */
export async function preparePrivateFolder(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 })
  const found = await lstat(path)
  if (!found.isDirectory())
    throw new SandboxError('invalid_config', `${path} must be a folder, not a link or a file`)
  if (found.uid !== process.getuid?.()) {
    const remedy = 'name a folder of your own with AGENTWEAVER_STATE_DIR'
    throw new SandboxError('invalid_config', `${path} belongs to another user: ${remedy}`)
  }
  await chmod(path, 0o700)
}
