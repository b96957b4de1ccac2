import { once } from 'node:events'
import { connect } from 'node:net'
import { API_KEY_FILE } from '../../contracts/api-env.ts'
import { errnoOf } from '../../runtime/kit/errors.ts'
import { Distrust, openPrivateFolder } from '../../runtime/state-folder/private-folder.ts'
import type { SocketPlace } from '../../runtime/state-folder/socket-place.ts'

/** The service of this user's state folder, as its folder and its socket show it. */
export type OwnService =
  | { readonly kind: 'absent' }
  /** Someone else could stand behind the socket, or read or change what is in the folder. */
  | { readonly kind: 'distrusted'; readonly why: Distrust }
  | {
      readonly kind: 'running'
      /** A path to the socket of the very folder that was checked. */
      readonly socketPath: string
      /** Undefined if the store has API keys of its own and the file of the first one is gone. */
      readonly apiKey: string | undefined
    }

type Place = { readonly stateDir: string; readonly socket: SocketPlace }

/**
 * Looks for the service without sending anything. Folder and socket must be this user's own, no links, and closed to
 * others; the folder stays open for as long as this process lives, so that nothing can take its place.
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

/** Whether a program listens at a socket. A service that crashed leaves one at which none does. */
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
