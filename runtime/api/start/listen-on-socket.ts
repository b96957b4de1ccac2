import { once } from 'node:events'
import { chmodSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { messageOf, SandboxError } from '../../kit/errors.ts'
import { preparePrivateFolder } from '../../state-folder/prepare-folder.ts'
import type { SocketPlace } from '../../state-folder/socket-place.ts'

/**
 * Also serves the app on a Unix socket, for the command line of the same user. Other users cannot connect, because the
 * folder and the socket are closed to them. The caller holds the lock of the state folder, so an existing socket file is
 * left over from a service that has ended.
 */
export async function listenOnSocket(
  app: Pick<FastifyInstance, 'server'>,
  { folder, path }: SocketPlace,
): Promise<{ close(): void }> {
  // The same option as for the HTTP server's own connections: a client that has sent everything can still read.
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
  new SandboxError('unavailable', `The socket ${path} cannot be created: ${messageOf(cause)}`, { cause })
