import { once } from 'node:events'
import type { Socket } from 'node:net'
import { expect, it } from 'vitest'
import type { RestrictionLevel } from '../../contracts/restrictions.ts'
import { createAuditTrail } from '../../runtime/api/runs/audit-trail.ts'
import { createRestrictionCalls } from '../../runtime/api/runs/restrictions/set-restriction.ts'
import { deploymentRig, givenNetwork, open, startControl, tokenFor } from './cluster-rig.ts'
import { HOST, servers, tlsOver } from './proxy-rig.ts'
import { startReplicaProcess } from './replica-process.ts'

const AUTHOR = { owner: 'root', role: 'operator' } as const
/** Tunnels of the run at each replica. */
const TUNNELS = 10

/** Two replicas in processes, one process of the API, and two runs that both replicas list. */
async function rig() {
  const site = await servers()
  const deployment = await deploymentRig([site.tls])
  const { store, keys } = deployment
  const { url, restrictions } = await startControl(deployment)
  await restrictions.refresh()
  const runId = await givenNetwork(store)
  const otherId = await givenNetwork(store)
  const replicas = [
    await startReplicaProcess(deployment, url, 2),
    await startReplicaProcess(deployment, url, 2),
  ]
  const deps = { store, restrictions, clock: () => new Date(), redactText: (text: string) => text }
  const calls = createRestrictionCalls(deps, createAuditTrail(keys), () => undefined)
  const connectTo = async (port: number, id: string) =>
    open(port, `${HOST}:${site.tls}`, `Bearer ${await tokenFor({ keys, runId: id })}`)
  const tunnels = (id: string, count: number) =>
    Promise.all(
      replicas.flatMap(({ port }) =>
        Array.from({ length: count }, async () => {
          const { head, socket } = await connectTo(port, id)
          expect(head).toMatch(/^HTTP\/1\.1 200/)
          return tlsOver(socket, { servername: HOST })
        }),
      ),
    )
  return {
    ...{ runId, otherId, tunnels, replicas },
    connectAgain: () =>
      Promise.all(
        replicas.map(async ({ port }) => {
          const { head, socket } = await connectTo(port, runId)
          socket.destroy()
          return head
        }),
      ),
    restrict: (level: RestrictionLevel) => () =>
      calls.setRestriction(AUTHOR, { scope: { kind: 'run', id: runId }, level, reason: 'incident 42' }),
    cancel: () =>
      store.transaction((tx) => tx.changeRun(runId, { ending: { state: 'cancelled', by: 'ada' } })),
  }
}

async function echoes(socket: Socket): Promise<string> {
  socket.write('hello')
  const [answer] = (await once(socket, 'data')) as [Buffer]
  return answer.toString()
}

type Rig = Awaited<ReturnType<typeof rig>>

const SWITCHES: readonly (readonly [string, (rig: Rig) => () => Promise<unknown>, RegExp])[] = [
  ['no-network', ({ restrict }) => restrict('no-network'), /a person has turned off the network/],
  ['read-only', ({ restrict }) => restrict('read-only'), /restricted this run to reading/],
  ['cancel', ({ cancel }) => cancel, /has no network access, or not any more/],
]

it.each(SWITCHES)(
  '%s closes all tunnels of a run at two replicas, and no other',
  async (what, of, sentence) => {
    const all = await rig()
    const { runId, otherId, tunnels, replicas, connectAgain } = all
    const own = await tunnels(runId, TUNNELS)
    const others = await tunnels(otherId, 2)
    // The control: all of them carry data.
    for (const socket of [...own, ...others]) expect(await echoes(socket)).toBe('echo hello')
    expect(await Promise.all(replicas.map((one) => one.connections()))).toEqual([TUNNELS + 2, TUNNELS + 2])
    const closed = own.map((socket) => once(socket, 'close'))

    const start = performance.now()
    await of(all)()
    await Promise.all(closed)
    process.stdout.write(`${what}: closed after ${Math.round(performance.now() - start)} ms\n`)

    for (const head of await connectAgain()) expect(head).toMatch(sentence)
    for (const socket of others) expect(await echoes(socket)).toBe('echo hello')
    expect(await Promise.all(replicas.map((one) => one.connections()))).toEqual([2, 2])
    for (const socket of others) socket.destroy()
  },
)
