import { SandboxError } from '../../runtime/kit/errors.ts'
import { CliError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { quoteWord } from '../terminal/shell-word.ts'
import { sentence } from './cli-words.ts'
import type { Connection } from './connect.ts'

type Wanted = {
  readonly connection: Pick<Connection, 'isOwn'>
  readonly path: string | undefined
  /** What to do instead if the service runs on another machine. @default only the reason */
  readonly otherwise?: string
}

/** Awaits a request that names a folder. If the service rejects the folder, the error says what works instead. */
export async function inFolder<T>(work: Promise<T>, { connection, path, otherwise }: Wanted): Promise<T> {
  try {
    return await work
  } catch (error) {
    if (!(error instanceof SandboxError) || error.code !== 'workspace_invalid' || path === undefined)
      throw error
    const hint = connection.isOwn
      ? ownHint(error.message, path)
      : [REMOTE, otherwise].filter(Boolean).join(' ')
    throw new CliError(sentence(error.message), { status: EXIT.usage, cause: error, ...(hint && { hint }) })
  }
}

const REMOTE = 'A service at a URL uses folders on its own machine, not on yours.'

/** Only a folder outside the roots can be allowed by a setting. A link, or a folder with keys, cannot. */
const ownHint = (message: string, path: string): string | undefined =>
  message.includes('AGENTWEAVER_WORKSPACE_ROOTS')
    ? `Use a folder in one of those. Or stop the service and start it with this folder: AGENTWEAVER_WORKSPACE_ROOTS="$HOME":${quoteWord(path)} agentweaver serve`
    : undefined
