import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import { COMPILE_CACHE } from '../helpers/compile-cache.ts'
import { until } from '../helpers/until.ts'
import type { Deployment } from './cluster-rig.ts'
import { portOf } from './proxy-rig.ts'

const SERVER = fileURLToPath(new URL('../../runtime/egress/cluster/server.ts', import.meta.url))

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const port = portOf(server)
  await new Promise((resolve) => server.close(resolve))
  return port
}

/** One replica of the proxy in its own process, as in a pod. Returns when it lists the sandboxes. */
export async function startReplicaProcess({ tokenFile }: Deployment, url: string, sandboxes = 1) {
  const [port, healthPort] = [await freePort(), await freePort()]
  const child = spawn(process.execPath, [SERVER], {
    env: {
      ...COMPILE_CACHE,
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
  await until('the replica lists the sandboxes', () =>
    metric('agentweaver_egress_sandboxes').then(
      (count) => count === sandboxes,
      () => false,
    ),
  )
  return { port, healthPort, child, connections: () => metric('agentweaver_egress_connections') }
}
