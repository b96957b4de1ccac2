import type { FileError } from '../../contracts/files.ts'
import type { HostToRunner } from '../../contracts/runner.ts'
import { holdGitDirectories } from './hold-git-directories.ts'
import type { ServeContext } from './serve-context.ts'

type FileHeader = HostToRunner & { type: 'file' }

export const NOT_OPEN: FileError = { ok: false, code: 'denied', message: 'no workspace is open' }

/** Whether an operation may have created one of the names that make a folder a git directory. */
const isGitLike = (operation: FileHeader['operation']): boolean =>
  CHANGES.has(operation.op) &&
  Object.values(operation).some((value) => typeof value === 'string' && GIT_LIKE.test(value))

const CHANGES: ReadonlySet<string> = new Set(['write', 'mkdir', 'rename'])
const GIT_LIKE = /(?:^|\/)(?:head|objects|refs|commondir)(?:\/|$)/i

export function serveFile(
  { connection, binding }: ServeContext,
  { id, operation }: FileHeader,
  payload: Uint8Array,
): Promise<void> {
  return connection.serve(id, async ({ signal }) => {
    const workspace = binding.bound?.workspace
    if (!workspace) return connection.send({ type: 'file-result', id, result: NOT_OPEN })
    const answer = await workspace.perform(operation, { payload, signal })
    if (binding.bound && isGitLike(operation)) await holdGitDirectories(connection, binding.bound)
    return connection.send({ type: 'file-result', id, result: answer.result }, answer.payload)
  })
}
