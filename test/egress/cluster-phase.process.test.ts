import { once } from 'node:events'
import type { Socket } from 'node:net'
import { expect, it } from 'vitest'
import type { RunRow } from '../../runtime/store/store.ts'
import { until } from '../helpers/until.ts'
import { deploymentRig, givenNetwork, open, startControl, startProxy, tokenFor } from './cluster-rig.ts'
import { HOST, servers, tlsOver } from './proxy-rig.ts'

const SETUP_MS = 30 * 60_000
const startedAt = '2026-01-01T00:00:00.000Z'

/** Two replicas, and a sandbox whose run has begun its setup. Its host is allowed in both phases, or in `setup` alone. */
async function rig(phases: ('setup' | 'work')[]) {
  const site = await servers()
  let now = Date.parse(startedAt)
  const deployment = { ...(await deploymentRig([site.tls], { phases })), clock: () => new Date(now) }
  const { store, keys } = deployment
  const control = await startControl(deployment)
  const replicas = [await startProxy(deployment, control.url), await startProxy(deployment, control.url)]
  const runId = await givenNetwork(store)
  const change = (setup: Exclude<RunRow['setup'], undefined>) =>
    store.transaction((tx) => tx.changeRun(runId, { setup }))
  await change({ generation: 1, startedAt })
  const ask = async (port: number) => {
    const credentials = `Bearer ${await tokenFor({ keys, runId })}`
    return open(port, `${HOST}:${site.tls}`, credentials)
  }
  const tunnel = async (port: number) => {
    let opened = await ask(port)
    await until('the replica lists the sandbox', async () => {
      if (opened.head.startsWith('HTTP/1.1 200')) return true
      opened = await ask(port)
      return false
    })
    return tlsOver(opened.socket, { servername: HOST })
  }
  return {
    ...{ ask, tunnel, change },
    ports: replicas.map(({ port }) => port),
    pass: (ms: number) => {
      now += ms
    },
  }
}

async function echoes(socket: Socket): Promise<string> {
  socket.write('hello')
  const [answer] = (await once(socket, 'data')) as [Buffer]
  return answer.toString()
}

it('closes the tunnels of the setup on every replica when the setup ends, and opens new ones for work', async () => {
  const { ports, tunnel, change } = await rig(['setup', 'work'])
  const opened = await Promise.all(ports.map(tunnel))
  for (const socket of opened) expect(await echoes(socket), 'the control').toBe('echo hello')
  const closed = opened.map((socket) => once(socket, 'close'))

  await change({ generation: 1, startedAt, endedAt: startedAt })
  await Promise.all(closed)

  for (const port of ports) expect(await echoes(await tunnel(port))).toBe('echo hello')
})

it.each([
  ['the setup has ended', { generation: 1, startedAt, endedAt: startedAt }, 0],
  ['30 minutes have passed', { generation: 1, startedAt }, SETUP_MS],
  ['the run has another sandbox', { generation: 2, startedAt }, 0],
] as const)('refuses a host of the setup when %s', async (_what, setup, ms) => {
  const { ports, ask, tunnel, change, pass } = await rig(['setup'])
  const opened = await Promise.all(ports.map(tunnel))
  const closed = opened.map((socket) => once(socket, 'close'))

  pass(ms)
  await change(setup)
  await Promise.all(closed)

  for (const port of ports)
    expect((await ask(port)).head).toMatch(/^HTTP\/1\.1 403 .*allowed only in the phase setup/s)
})
