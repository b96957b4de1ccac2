import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { lstatSync, mkdirSync, readdirSync, readlinkSync, realpathSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import type { AgentHostEnvInput } from '../../../contracts/agent-host-env.ts'
import { WORKSPACE_MOUNT } from '../../../contracts/names.ts'
import { AGENT_HOST_PORT } from '../../../contracts/ports.ts'
import { AGENT_HOST_ROUTES } from '../../../contracts/routes.ts'
import { descendantsOf, signal } from './processes.ts'

export type PodOptions = {
  readonly folder: string
  readonly repository: string
  readonly program: string
  readonly jwksFile: string
  readonly ip: string
  /** Returns the token with which this pod proves its identity. */
  readonly identity: (pod: PodIdentity) => Promise<string>
}

export type PodIdentity = { readonly name: string; readonly uid: string; readonly account: string }

export type Pod = Awaited<ReturnType<typeof startPod>>

const LEAVE_MS = 2_500

/** Folders of the machine that a pod has. The repository contains Node and the program. */
const SYSTEM = ['usr', 'etc', 'bin', 'sbin', 'lib', 'lib32', 'lib64', 'opt', 'sys', 'proc']

/**
 * Mounts of a pod: the system, its folder, and its own workspace at the same path as in every other pod.
 */
function mountsOf({ folder, repository, jwksFile }: PodOptions): string[] {
  const present = readdirSync('/').filter((name) => SYSTEM.includes(name))
  const system = present.flatMap((name) =>
    lstatSync(`/${name}`).isSymbolicLink()
      ? ['--symlink', readlinkSync(`/${name}`), `/${name}`]
      : ['--bind', `/${name}`, `/${name}`],
  )
  const libraries = realpathSync(join(repository, 'node_modules'))
  const node = dirname(realpathSync(process.execPath))
  const own = [repository, libraries, node, folder, jwksFile].flatMap((path) => ['--bind', path, path])
  const workspace = ['--bind', join(folder, 'workspace'), WORKSPACE_MOUNT]
  return [...system, '--dev-bind', '/dev', '/dev', '--tmpfs', '/tmp', ...own, ...workspace]
}

/**
 * A pod: a real AgentHost with its runner, in a mount namespace where `/workspace` is the folder of this pod. It belongs
 * to this program, so it outlives the services. Its address forwards to the socket of AgentHost.
 */
export async function startPod(options: PodOptions) {
  const { folder, ip } = options
  const name = `pod-${randomUUID().slice(0, 8)}`
  const uid = randomUUID()
  const socketPath = join(folder, 'host.sock')
  for (const part of ['workspace', 'state']) mkdirSync(join(folder, part), { recursive: true, mode: 0o700 })
  const env = {
    AGENT_HOST_INSTANCE_ID: uid,
    AGENT_HOST_SOCKET: socketPath,
    AGENT_HOST_JWKS_FILE: options.jwksFile,
    AGENT_HOST_RUNNER_BACKEND: 'linux-bwrap',
    AGENT_HOST_STATE_DIR: join(folder, 'state'),
    AGENT_HOST_LOG_LEVEL: 'error',
    AGENT_HOST_LIFELINE: 'true',
  } satisfies AgentHostEnvInput
  const child = spawn('bwrap', [...mountsOf(options), '--', process.execPath, options.program], {
    detached: true,
    stdio: ['pipe', 'pipe', 'pipe'],
    env: { ...env, PATH: '/usr/local/bin:/usr/bin:/bin', HOME: folder, TMPDIR: join(folder, 'state') },
  })
  let said = ''
  child.stderr.on('data', (chunk) => {
    said += chunk
  })
  child.stdin.on('error', () => undefined)
  const exited = once(child, 'exit').then(([code, by]) => `${by ?? `exit code ${code}`}`)
  const standby = once(createInterface({ input: child.stdout }), 'line')
  const early = exited.then((how) => {
    throw new Error(`an AgentHost ended before it was in standby: ${how}: ${said}`)
  })
  await Promise.race([standby, early])
  early.catch(() => undefined)
  let account = ''
  const token = () => options.identity({ name, uid, account })
  const front = await startFront({ ip, socketPath, token })
  let stopped: Promise<void> | undefined
  return {
    name,
    uid,
    ip,
    folder,
    pid: child.pid ?? 0,
    exited,
    said: () => said,
    cutConnections: front.cut,
    /** Gives the pod the service account of its pool. */
    assign: (serviceAccount: string) => {
      account = serviceAccount
    },
    /** As a node deletes a pod: it may leave, and then everything in it is killed. */
    stop(): Promise<void> {
      stopped ??= stop(child, exited, front.close)
      return stopped
    },
    remove: () => rm(folder, { recursive: true, force: true, maxRetries: 3 }),
  }
}

async function stop(child: ChildProcess, exited: Promise<unknown>, closeFront: () => Promise<void>) {
  const before = descendantsOf([child.pid ?? 0])
  child.stdin?.end()
  const timeout = new Promise((resolve) => setTimeout(resolve, LEAVE_MS).unref())
  await Promise.race([exited, timeout])
  for (const { pid } of before) signal(pid, 'SIGKILL')
  signal(child.pid ?? 0, 'SIGKILL')
  await exited
  await closeFront()
}

type FrontOptions = {
  readonly ip: string
  readonly socketPath: string
  readonly token: () => Promise<string>
}

/** Serves the identity of the pod, and forwards every other request to AgentHost. */
async function startFront({ ip, socketPath, token }: FrontOptions) {
  const sockets = new Set<Socket>()
  const forward = (incoming: IncomingMessage, response: ServerResponse) => {
    const { method, url: path, headers } = incoming
    const outgoing = request({ socketPath, method, path, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers)
      response.flushHeaders()
      answer.pipe(response)
      answer.on('error', () => response.destroy())
      answer.on('aborted', () => response.destroy())
    })
    outgoing.on('error', () => response.destroy())
    response.on('close', () => outgoing.destroy())
    incoming.pipe(outgoing)
  }
  const server = createServer((incoming, response) => {
    if (incoming.url !== AGENT_HOST_ROUTES.identity) return forward(incoming, response)
    token().then(
      (text) => {
        const body = JSON.stringify({ token: text })
        response
          .writeHead(200, { 'content-type': 'application/json', 'content-length': body.length })
          .end(body)
      },
      () => response.destroy(),
    )
  })
  server.keepAliveTimeout = 0
  server.requestTimeout = 0
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  server.listen(AGENT_HOST_PORT, ip)
  await once(server, 'listening')
  return {
    cut: () => {
      for (const socket of sockets) socket.resetAndDestroy()
    },
    close: async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
