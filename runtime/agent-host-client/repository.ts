import {
  CHANGES_LIMITS,
  type ChangesRequest,
  CloneLine,
  type CloneRequest,
} from '../../contracts/git-source.ts'
import { type OpenPush, type SendPush, SentPush } from '../../contracts/push.ts'
import { AGENT_HOST_ROUTES } from '../../contracts/routes.ts'
import { SandboxError } from '../kit/errors.ts'
import { type AgentHostConnection, bodyOf, malformed } from './connection.ts'

const MAX_LINE_BYTES = 65_536
const MAX_BYTES = 16_777_216
/** Limit of the lists of changed files, which come in addition to the patch and the bundle. */
const MAX_LIST_BYTES = 33_554_432

/** The repository in the workspace of a sandbox. */
export function createRepositoryClient({ expectOk }: Pick<AgentHostConnection, 'expectOk'>) {
  const post = (path: string, body: object, signal: AbortSignal) => {
    const headers = { 'content-type': 'application/json' }
    return expectOk(path, { method: 'POST', headers, body: JSON.stringify(body), signal })
  }
  return {
    /** Clones a repository into the workspace. The last line is `cloned` or `failed`; without it, the sandbox is lost. */
    async *clone(body: CloneRequest, signal: AbortSignal): AsyncGenerator<CloneLine> {
      const response = await post(AGENT_HOST_ROUTES.clone, body, signal)
      for await (const line of linesOf(bodyOf(response, MAX_BYTES))) yield parseLine(line)
    },
    /** Returns the changes of a run since a commit, as a stream from its sandbox. */
    async getChanges(body: ChangesRequest, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>> {
      const { maxBundleBytes, maxPatchBytes } = CHANGES_LIMITS
      const response = await post(AGENT_HOST_ROUTES.changes, body, signal)
      return bodyOf(response, maxBundleBytes + maxPatchBytes + MAX_LIST_BYTES)
    },
    /** Prepares a push. Returns what its commits change. */
    async openPush(body: OpenPush, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>> {
      const response = await post(AGENT_HOST_ROUTES.openPush, body, signal)
      return bodyOf(response, CHANGES_LIMITS.maxPatchBytes + MAX_LIST_BYTES)
    },
    /** Sends the prepared push. What the server refuses is in the answer. */
    async sendPush(body: SendPush, signal: AbortSignal): Promise<SentPush> {
      const response = await post(AGENT_HOST_ROUTES.sendPush, body, signal)
      const pieces: Uint8Array[] = []
      for await (const piece of bodyOf(response, MAX_LINE_BYTES)) pieces.push(piece)
      try {
        return SentPush.parse(JSON.parse(Buffer.concat(pieces).toString('utf8')))
      } catch (error) {
        throw malformed('AgentHost sent the result of a push in an unknown format', error)
      }
    },
  }
}

function parseLine(line: string): CloneLine {
  try {
    return CloneLine.parse(JSON.parse(line))
  } catch (error) {
    throw malformed('AgentHost sent a line in an unknown format', error)
  }
}

async function* linesOf(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let pending = ''
  for await (const piece of pieces) {
    const lines = (pending + decoder.decode(piece, { stream: true })).split('\n')
    pending = lines.pop() ?? ''
    if (pending.length > MAX_LINE_BYTES)
      throw new SandboxError('sandbox_lost', 'AgentHost sent a line that is too long')
    yield* lines
  }
}
