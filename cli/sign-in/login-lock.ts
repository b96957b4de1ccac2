import { dirname, join } from 'node:path'
import { preparePrivateFolder } from '../../runtime/state-folder/prepare-folder.ts'
import { CliError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { loginFile } from '../service/logins.ts'

/** Longer than a request to the issuer takes. */
const WAIT_MS = 60_000

/**
 * Locks the login of a service. An issuer that rotates refresh tokens accepts each one once, and ends the sign-in when one is
 * used twice, so two processes must not use the same one. The lock ends with the process.
 */
export async function lockLogin(configDir: string, origin: string): Promise<Disposable> {
  // Loaded here because Node 22 warns when SQLite is loaded.
  const { lockFileWhenFree } = await import('../../runtime/state-folder/state-lock.ts')
  const folder = join(configDir, 'locks')
  await preparePrivateFolder(folder)
  const path = join(folder, encodeURIComponent(origin))
  const unlock = await lockFileWhenFree(path, WAIT_MS)
  if (unlock) return { [Symbol.dispose]: unlock }
  throw new CliError(
    `Another process has been renewing the sign-in in ${dirname(loginFile(configDir, origin))} for a minute.`,
    { status: EXIT.unreachable, hint: `It holds ${path}. End it, and repeat the command.` },
  )
}
