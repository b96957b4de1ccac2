import type { Socket } from 'node:net'
import { WORKSPACE_MOUNT } from '../../../contracts/names.ts'
import { SandboxError } from '../../kit/errors.ts'
import { peerUserOf } from '../../system-calls/peer-user.ts'
import { connectToolbox } from './connect-toolbox.ts'
import { pairRunners } from './pair-runners.ts'
import type { RunnerLink } from './runner-link.ts'

/** Returns the socket if the kernel reports the expected user as its peer; throws otherwise. */
export function admit(socket: Socket, user: number): Socket {
  const peer = peerUserOf(socket)
  if (peer === user) return socket
  throw new SandboxError(
    'isolation_unavailable',
    `a process of user ${peer} connected to the runner socket; user ${user} was expected`,
  )
}

/** Combines the runners behind these sockets into one link. On failure, every socket is closed. */
export async function linkRunners(sockets: readonly Socket[]): Promise<RunnerLink> {
  try {
    return openedAhead(pairRunners(await Promise.all(sockets.map((socket) => connectToolbox(socket)))))
  } catch (error) {
    for (const socket of sockets) socket.destroy()
    throw error
  }
}

/** The workspace path of a pod is fixed, so it is opened before a run needs it. `open` reports the result later. */
function openedAhead(link: RunnerLink): RunnerLink {
  const opening = link.open(WORKSPACE_MOUNT)
  opening.catch(() => undefined)
  return {
    ...link,
    open: (root, folder) => (root === WORKSPACE_MOUNT && !folder ? opening : link.open(root, folder)),
  }
}
