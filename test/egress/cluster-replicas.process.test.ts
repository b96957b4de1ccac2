import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { fileURLToPath } from 'node:url'
import { expect, it, onTestFinished } from 'vitest'
import { until } from '../helpers/until.ts'
import { type Deployment, deploymentRig, givenNetwork, open, startControl, tokenFor } from './cluster-rig.ts'
import { HOST, portOf, servers, tlsOver } from './proxy-rig.ts'

const SERVER = fileURLToPath(new URL('../../runtime/egress/cluster/server.ts', import.meta.url))
const TUNNELS = 250
/** Handshakes at the same time. */
const BATCH = 25

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const port = portOf(server)
  await new Promise((resolve) => server.close(resolve))
  return port
}

/** One replica in its own process, as in a pod. */
async function startReplicaProcess({ tokenFile }: Deployment, url: string) {
  const [port, healthPort] = [await freePort(), await freePort()]
  const child = spawn(process.execPath, [SERVER], {
    env: {
      AGENTWEAVER_EGRESS_CONTROL_URL: url,
      AGENTWEAVER_EGRESS_CONTROL_TOKEN_FILE: tokenFile,
      AGENTWEAVER_EGRESS_PORT: String(port),
      AGENTWEAVER_EGRESS_HEALTH_PORT: String(healthPort),
    },
    stdio: 'ignore',
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  const metric = async (name: string) => {
    const text = await (await fetch(`http://127.0.0.1:${healthPort}/metrics`)).text()
    return Number(new RegExp(`^${name} (\\d+)`, 'm').exec(text)?.[1])
  }
  await until('the replica lists the sandbox', () =>
    metric('agentweaver_egress_sandboxes').then(
      (count) => count === 1,
      () => false,
    ),
  )
  return { port, child, connections: () => metric('agentweaver_egress_connections') }
}

async function echoes(socket: Socket): Promise<string> {
  socket.write('hello')
  const [answer] = (await once(socket, 'data')) as [Buffer]
  return answer.toString()
}

it(`loses only its own ${TUNNELS} tunnels when it is killed`, async () => {
  const site = await servers()
  const deployment = await deploymentRig([site.tls])
  const { store, keys } = deployment
  const control = await startControl(deployment)
  const runId = await givenNetwork(store)
  const killed = await startReplicaProcess(deployment, control.url)
  const other = await startReplicaProcess(deployment, control.url)
  const credentials = `Bearer ${await tokenFor({ keys, runId })}`
  const tunnelsOf = async (port: number) => {
    const opened: Socket[] = []
    while (opened.length < TUNNELS) {
      const batch = Array.from({ length: BATCH }, async () => {
        const { head, socket } = await open(port, `${HOST}:${site.tls}`, credentials)
        expect(head).toMatch(/^HTTP\/1\.1 200/)
        return tlsOver(socket, { servername: HOST })
      })
      opened.push(...(await Promise.all(batch)))
    }
    return opened
  }
  const lost = await tunnelsOf(killed.port)
  const kept = await tunnelsOf(other.port)
  expect([await killed.connections(), await other.connections()]).toEqual([TUNNELS, TUNNELS])
  const closed = lost.map((socket) => once(socket, 'close'))

  killed.child.kill('SIGKILL')
  await Promise.all(closed)

  expect(await other.connections()).toBe(TUNNELS)
  const answers = await Promise.all(kept.map(echoes))
  expect(new Set(answers)).toEqual(new Set(['echo hello']))
  // The other replica still opens tunnels.
  const { head, socket } = await open(other.port, `${HOST}:${site.tls}`, credentials)
  expect(head).toMatch(/^HTTP\/1\.1 200/)
  for (const one of [...kept, socket]) one.destroy()
}, 180_000)
