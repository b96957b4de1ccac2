import { once } from 'node:events'
import { Socket } from 'node:net'
import { POD_START_LIMIT_MS, POD_USERS, RUNNER_SOCKET } from '../../../contracts/pod.ts'
import { delay, withTimeout } from '../../kit/deadline.ts'
import { errnoOf, SandboxError } from '../../kit/errors.ts'
import { peerUserOf } from '../../system-calls/peer-user.ts'

const RETRY_MS = 20

/**
 * Connects to AgentHost as soon as it listens. The connection is paused, so that another process can take it
 * over. Throws if the listener runs as another user, because it is then not AgentHost.
 */
export async function connectToHost(
  name = RUNNER_SOCKET,
  user: number = POD_USERS.agentHost,
): Promise<Socket> {
  const signal = withTimeout(POD_START_LIMIT_MS)
  for (;;) {
    const socket = await tryConnect(name, signal)
    if (!socket) {
      await delay(RETRY_MS, signal)
      continue
    }
    const peer = peerUserOf(socket)
    if (peer === user) return socket
    socket.destroy()
    throw new SandboxError('isolation_unavailable', `user ${peer} listens in the place of AgentHost`)
  }
}

/** Returns undefined if AgentHost does not listen yet. */
async function tryConnect(name: string, signal: AbortSignal): Promise<Socket | undefined> {
  const socket = new Socket().pause()
  socket.connect(`\0${name}`)
  try {
    await once(socket, 'connect', { signal })
    return socket
  } catch (error) {
    socket.destroy()
    if (errnoOf(error) === 'ECONNREFUSED' || errnoOf(error) === 'ENOENT') return undefined
    throw error
  }
}
