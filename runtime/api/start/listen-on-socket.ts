import { once } from 'node:events'
import { chmodSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { messageOf, SandboxError } from '../../kit/errors.ts'
import { preparePrivateFolder } from '../../state-folder/prepare-folder.ts'
import type { SocketPlace } from '../../state-folder/socket-place.ts'

/**
 * Serves the app over a Unix socket too, for the command line of the user who runs the service. No other user can
 * connect: the folder is closed to them, and so is the socket. The caller holds the lock of the state folder, so that a
 * socket which is there already is a leftover of a service that ended.
 */
export async function listenOnSocket(
  app: Pick<FastifyInstance, 'server'>,
  { folder, path }: SocketPlace,
): Promise<{ close(): void }> {
  // As the HTTP server's own connections are made: a client that has sent everything still reads.
  const server = createServer({ allowHalfOpen: true }, (connection) => {
    app.server.emit('connection', connection)
  })
  try {
    await preparePrivateFolder(folder)
    rmSync(path, { force: true })
    server.listen(path)
    await once(server, 'listening')
    chmodSync(path, 0o600)
  } catch (error) {
    server.close()
    throw failure(path, error)
  }
  return { close: () => void server.close() }
}

const failure = (path: string, cause: unknown): SandboxError =>
  new SandboxError('unavailable', `The socket ${path} cannot be made: ${messageOf(cause)}`, { cause })
