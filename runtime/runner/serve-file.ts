import type { FileError } from '../../contracts/files.ts'
import type { HostToRunner } from '../../contracts/runner.ts'
import type { Server } from './serve.ts'

type FileHeader = HostToRunner & { type: 'file' }

export const NOT_OPEN: FileError = { ok: false, code: 'denied', message: 'no workspace is open' }

/** Performs one operation of the workspace engine. */
export function serveFile(
  { connection, binding }: Server,
  { id, operation }: FileHeader,
  payload: Uint8Array,
): Promise<void> {
  return connection.serve(id, async ({ signal }) => {
    const workspace = binding.bound?.workspace
    if (!workspace) return connection.send({ type: 'file-result', id, result: NOT_OPEN })
    const answer = await workspace.perform(operation, { payload, signal })
    return connection.send({ type: 'file-result', id, result: answer.result }, answer.payload)
  })
}
