import { once } from 'node:events'
import { connect } from 'node:net'
import { API_KEY_FILE } from '../../contracts/api-env.ts'
import { errnoOf } from '../../runtime/kit/errors.ts'
import { Distrust, openPrivateFolder } from '../../runtime/state-folder/private-folder.ts'
import type { SocketPlace } from '../../runtime/state-folder/socket-place.ts'

/** State of the user's own service, as found in its state folder. */
export type OwnService =
  | { readonly kind: 'absent' }
  /** Another user could listen on the socket, or read or change files in the folder. */
  | { readonly kind: 'distrusted'; readonly why: Distrust }
  | {
      readonly kind: 'running'
      /** Socket path relative to the open folder that was checked. */
      readonly socketPath: string
      /** Undefined if the store has API keys but the file with the first one is missing. */
      readonly apiKey: string | undefined
    }

type Place = { readonly stateDir: string; readonly socket: SocketPlace }

/**
 * Looks for the service without sending anything. The folder and the socket must belong to this user, must not be links,
 * and must be closed to other users. The folder stays open while this process lives, so that it cannot be replaced.
 */
export async function findOwnService({ stateDir, socket }: Place): Promise<OwnService> {
  try {
    const state = openPrivateFolder(stateDir)
    const folder = socket.folder === stateDir ? state : openPrivateFolder(socket.folder)
    if (!state || !folder?.hasSocket(socket.name)) return { kind: 'absent' }
    const socketPath = folder.at(socket.name)
    if (!(await accepts(socketPath))) return { kind: 'absent' }
    return { kind: 'running', socketPath, apiKey: state.readFile(API_KEY_FILE)?.trim() }
  } catch (error) {
    if (error instanceof Distrust) return { kind: 'distrusted', why: error }
    throw error
  }
}

/** Whether a program listens on the socket. A crashed service leaves a socket file behind. */
async function accepts(socketPath: string): Promise<boolean> {
  const connection = connect(socketPath)
  try {
    await once(connection, 'connect')
    return true
  } catch (error) {
    if (errnoOf(error) === 'ECONNREFUSED' || errnoOf(error) === 'ENOENT') return false
    throw error
  } finally {
    connection.destroy()
  }
}
