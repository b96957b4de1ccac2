import { once } from 'node:events'
import type { Socket } from 'node:net'
import { expect, it } from 'vitest'
import { deploymentRig, givenNetwork, open, startControl, tokenFor } from './cluster-rig.ts'
import { HOST, servers, tlsOver } from './proxy-rig.ts'
import { startReplicaProcess } from './replica-process.ts'

const TUNNELS = 250
/** Handshakes at the same time. */
const BATCH = 25

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
