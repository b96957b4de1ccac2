import { createServer, type Server, type Socket } from 'node:net'
import { POD_START_LIMIT_MS, POD_USERS, RUNNER_SOCKET } from '../../../contracts/pod.ts'
import { deadline } from '../../kit/deadline.ts'
import { SandboxError } from '../../kit/errors.ts'
import type { RunnerLink } from './runner-link.ts'

const EXPECTED = 2

export interface AwaitRunnersOptions {
  /** @default the socket name that the runners use */
  readonly name?: string
  /** @default the toolbox's user */
  readonly user?: number
}

/**
 * Waits for the pod's two runners on the abstract socket and then closes the socket, so that no later process can pose as
 * a runner. A third connection, or a connection of another user or role, makes the pod unusable.
 */
export async function awaitRunners(options: AwaitRunnersOptions = {}): Promise<RunnerLink> {
  const { name = RUNNER_SOCKET, user = POD_USERS.toolbox } = options
  const sockets = await deadline('the runners to connect', POD_START_LIMIT_MS, acceptPair(name, user))
  const { linkRunners } = await admission()
  return linkRunners(sockets)
}

/** Loaded while the runners are still starting. */
const admission = () => import('./admission.ts')

function acceptPair(name: string, user: number): Promise<Socket[]> {
  const accepted: Socket[] = []
  const admitted: Promise<Socket>[] = []
  const { promise, resolve, reject } = Promise.withResolvers<Socket[]>()
  const refuse = (error: unknown) => {
    for (const one of accepted) one.destroy()
    server.close()
    reject(error)
  }
  const server: Server = createServer({ pauseOnConnect: true }, (socket) => {
    accepted.push(socket)
    if (accepted.length > EXPECTED) return refuse(tooMany())
    if (accepted.length === EXPECTED) server.close()
    admitted.push(admission().then(({ admit }) => admit(socket, user)))
    admitted.at(-1)?.catch(refuse)
    if (accepted.length === EXPECTED) Promise.all(admitted).then(resolve, refuse)
  })
  server.on('error', reject)
  server.listen(`\0${name}`)
  return promise
}

const tooMany = () => new SandboxError('isolation_unavailable', 'more than two runners connected')
