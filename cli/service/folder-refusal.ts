import { SandboxError } from '../../runtime/kit/errors.ts'
import { CliError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { quoteWord } from '../terminal/shell-word.ts'
import { sentence } from './cli-words.ts'
import type { Connection } from './connect.ts'

type Wanted = {
  readonly connection: Pick<Connection, 'isOwn'>
  readonly path: string | undefined
  /** What works without a folder of the service's machine. */
  readonly otherwise: string
}

/** Work that names a folder to the service; a refusal of the folder says what works instead. */
export async function inFolder<T>(work: Promise<T>, { connection, path, otherwise }: Wanted): Promise<T> {
  try {
    return await work
  } catch (error) {
    if (!(error instanceof SandboxError) || error.code !== 'workspace_invalid' || path === undefined)
      throw error
    const hint = connection.isOwn ? ownHint(error.message, path) : `${REMOTE} ${otherwise}`
    throw new CliError(sentence(error.message), { status: EXIT.usage, cause: error, ...(hint && { hint }) })
  }
}

const REMOTE = 'A service at a URL uses folders of its own machine, not of yours.'

/** Only folders outside the roots can be allowed; a link or a folder with keys cannot. */
const ownHint = (message: string, path: string): string | undefined =>
  message.includes('AGENTWEAVER_WORKSPACE_ROOTS')
    ? `Name a folder in one of those, or stop the service and let it work here too: AGENTWEAVER_WORKSPACE_ROOTS="$HOME":${quoteWord(path)} agentweaver serve`
    : undefined
