import type { Socket } from 'node:net'
import { WORKSPACE_MOUNT } from '../../../contracts/names.ts'
import { SandboxError } from '../../kit/errors.ts'
import { peerUserOf } from '../../system-calls/peer-user.ts'
import { connectToolbox } from './connect-toolbox.ts'
import { pairRunners } from './pair-runners.ts'
import type { RunnerLink } from './runner-link.ts'

/** Answers a socket whose other end is this user's, by the kernel's word. */
export function admit(socket: Socket, user: number): Socket {
  const peer = peerUserOf(socket)
  if (peer === user) return socket
  throw new SandboxError('isolation_unavailable', `user ${peer} connected in the place of a runner`)
}

/** One toolbox of the two runners behind these sockets; none of them stays open where that fails. */
export async function linkRunners(sockets: readonly Socket[]): Promise<RunnerLink> {
  try {
    return openedAhead(pairRunners(await Promise.all(sockets.map((socket) => connectToolbox(socket)))))
  } catch (error) {
    for (const socket of sockets) socket.destroy()
    throw error
  }
}

/** The place of a pod's workspace is fixed: it is opened while no run waits for it. What the runners say is told then. */
function openedAhead(link: RunnerLink): RunnerLink {
  const opening = link.open(WORKSPACE_MOUNT)
  opening.catch(() => undefined)
  return {
    ...link,
    open: (root, folder) => (root === WORKSPACE_MOUNT && !folder ? opening : link.open(root, folder)),
  }
}
