import { createServer, type Server, type Socket } from 'node:net'
import { POD_START_LIMIT_MS, POD_USERS, RUNNER_SOCKET } from '../../../contracts/pod.ts'
import { deadline } from '../../kit/deadline.ts'
import { SandboxError } from '../../kit/errors.ts'
import { peerUserOf } from '../../system-calls/peer-user.ts'
import { connectToolbox } from './connect-toolbox.ts'
import { pairRunners } from './pair-runners.ts'
import type { RunnerLink } from './runner-link.ts'

const EXPECTED = 2

export interface AwaitRunnersOptions {
  /** @default the name that runners know */
  readonly name?: string
  /** @default the toolbox's user */
  readonly user?: number
}

/**
 * Waits for the two runners of the pod on the abstract socket, then closes that for good: nothing that runs later can
 * pose as a runner. A third connection, another user or another role before that spends the pod.
 */
export async function awaitRunners(options: AwaitRunnersOptions = {}): Promise<RunnerLink> {
  const { name = RUNNER_SOCKET, user = POD_USERS.toolbox } = options
  const sockets = await deadline('the runners to connect', POD_START_LIMIT_MS, acceptPair(name, user))
  try {
    return pairRunners(await Promise.all(sockets.map((socket) => connectToolbox(socket))))
  } catch (error) {
    for (const socket of sockets) socket.destroy()
    throw error
  }
}

function acceptPair(name: string, user: number): Promise<Socket[]> {
  const accepted: Socket[] = []
  const { promise, resolve, reject } = Promise.withResolvers<Socket[]>()
  const server: Server = createServer({ pauseOnConnect: true }, (socket) => {
    const peer = peerUserOf(socket)
    accepted.push(socket)
    if (peer !== user || accepted.length > EXPECTED) {
      for (const one of accepted) one.destroy()
      reject(new SandboxError('isolation_unavailable', refusal(peer, user)))
    } else if (accepted.length === EXPECTED) {
      resolve(accepted)
    } else return
    server.close()
  })
  server.on('error', reject)
  server.listen(`\0${name}`)
  return promise
}

const refusal = (peer: number, user: number): string =>
  peer === user
    ? 'more runners connected than this pod has'
    : `user ${peer} connected in the place of a runner`
