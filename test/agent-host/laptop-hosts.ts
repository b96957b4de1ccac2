import { spawn } from 'node:child_process'
import { createPublicKey, generateKeyPairSync, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createConnection, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { JWK } from 'jose'
import type { AgentHostEnvInput } from '../../contracts/agent-host-env.ts'
import type { ConnectionGuard } from '../../runtime/agent-host-client/connection-guard.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { startHostProcess } from '../../runtime/sandboxes/local/host-process.ts'
import { selectIsolation } from '../../runtime/sandboxes/local/isolation.ts'
import type { TicketKeys } from '../conformance/agent-host-cases/forge.ts'
import type { HostUnderTest } from '../conformance/agent-host-cases/host.ts'
import { bundledHost } from '../helpers/bundled-host.ts'
import { freePort } from '../helpers/free-port.ts'

const KID = 'k1'

/** Accepts every connection: no other process listens on a port of this test. The pod guard has its own tests. */
const trustful: ConnectionGuard = { verify: async () => undefined }

/** Creates the folder and the ticket keys that all AgentHosts of one test file share. */
export function createLaptop() {
  const folder = mkdtempSync(join(tmpdir(), 'aw-laptop-'))
  const jwksFile = join(folder, 'jwks.json')
  const { privateKey } = generateKeyPairSync('ed25519')
  const publish = async (keys: readonly JWK[]) => writeFileSync(jwksFile, JSON.stringify({ keys }))
  const jwk = { ...createPublicKey(privateKey).export({ format: 'jwk' }), kid: KID, alg: 'EdDSA', use: 'sig' }
  void publish([jwk])
  const keys: TicketKeys = { kid: KID, privateKey, publish }
  return {
    folder,
    jwksFile,
    keys,
    bundled: bundledHost,
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}

export type Laptop = ReturnType<typeof createLaptop>

const opened = async (socket: Socket): Promise<Socket> => {
  await once(socket, 'connect')
  return socket.on('error', () => undefined)
}

/** Starts a real AgentHost and its runner from the bundles on a Unix socket, like the local provider. */
export async function startOnSocket({ jwksFile, bundled }: Laptop): Promise<HostUnderTest> {
  const { backend } = await selectIsolation({ allowDirect: false, toolRoots: [] })
  const host = await startHostProcess({
    jwksFile,
    backend: backend.name,
    toolRoots: [],
    logLevel: 'error',
    log: silentLog,
    entry: await bundled(),
  })
  return {
    instanceId: host.instanceId,
    address: { socketPath: host.socketPath },
    connect: () => opened(createConnection(host.socketPath)),
    workingDirectory: host.workspace,
    close: () => host.destroy(),
  }
}

export interface HostOnPort extends HostUnderTest {
  readonly pid: number
  /** Returns the complete log output of AgentHost. */
  readonly log: () => string
}

/** Starts AgentHost from its bundle on a TCP port, as in a pod, with the runner of the local provider. */
export async function startOnPort(
  { folder, jwksFile, bundled }: Laptop,
  more: Readonly<Record<string, string>> = {},
): Promise<HostOnPort> {
  const instanceId = randomUUID()
  const port = await freePort('::')
  const workspace = join(folder, instanceId)
  const stateDir = join(folder, `${instanceId}.state`)
  mkdirSync(workspace)
  mkdirSync(stateDir, { mode: 0o700 })
  const { backend } = await selectIsolation({ allowDirect: false, toolRoots: [] })
  const env = {
    AGENT_HOST_INSTANCE_ID: instanceId,
    AGENT_HOST_PORT: String(port),
    AGENT_HOST_JWKS_FILE: jwksFile,
    AGENT_HOST_RUNNER_BACKEND: backend.name,
    AGENT_HOST_STATE_DIR: stateDir,
    AGENT_HOST_LOG_LEVEL: 'error',
    AGENT_HOST_LIFELINE: 'true',
  } satisfies AgentHostEnvInput
  const child = spawn(process.execPath, [await bundled()], {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: { ...env, ...more, PATH: '/usr/local/bin:/usr/bin:/bin', HOME: stateDir, TMPDIR: stateDir },
  })
  const exited = once(child, 'exit')
  let said = ''
  child.stderr.on('data', (chunk: Buffer) => {
    said += chunk.toString('utf8')
  })
  await Promise.race([once(createInterface({ input: child.stdout }), 'line'), exited])
  return {
    instanceId,
    address: { baseUrl: `http://127.0.0.1:${port}`, guard: trustful },
    connect: () => opened(createConnection(port, '127.0.0.1')),
    workingDirectory: workspace,
    pid: child.pid ?? 0,
    log: () => said,
    close: async () => {
      child.stdin.end()
      await exited
    },
  }
}
