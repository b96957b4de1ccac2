import { once } from 'node:events'
import type { TLSSocket } from 'node:tls'
import { expect, it } from 'vitest'
import { EGRESS_LIMITS } from '../../runtime/egress/limits.ts'
import { until } from '../helpers/until.ts'
import { deploymentRig, givenNetwork, open, startControl, startProxy, tokenFor } from './cluster-rig.ts'
import { HOST, servers, tlsOver } from './proxy-rig.ts'

/** Small: a fast machine sends many pieces between two measurements. */
const PIECE = 'x'.repeat(1_000)
const LIMIT = 2_000_000
/** More bytes that a replica may let pass while it waits for a share. */
const BEYOND = 200_000
/** For two replicas, and the pieces between two measurements. */
const SLACK = 2 * BEYOND + 200_000

/** Two replicas of the proxy, each with another process of the API over one store. */
async function place(limit: number) {
  const site = await servers()
  const bytes = { limit, leastShare: 200_000 }
  const deployment = { ...(await deploymentRig([site.tls])), bytes }
  const { store, keys } = deployment
  const runId = await givenNetwork(store)
  const credentials = `Bearer ${await tokenFor({ keys, runId })}`
  const limits = { ...EGRESS_LIMITS, bytesBeyondShare: BEYOND, meterMs: 10 }
  const apis = [await startControl(deployment), await startControl(deployment)]
  const proxies = await Promise.all(apis.map(({ url }) => startProxy(deployment, url, { limits })))
  for (const { lease } of proxies) await until('a replica has a lease', () => lease.isHeld)
  const target = `${HOST}:${site.tls}`
  const connect = async (proxy: number) => {
    const { socket, head } = await open(proxies[proxy]?.port ?? 0, target, credentials)
    return { socket, head }
  }
  const taken = () => store.transaction((tx) => tx.readTakenBytes(runId))
  return { connect, proxies, taken, store, runId }
}

type Place = Awaited<ReturnType<typeof place>>

/** Sends pieces until the connection is closed, or has passed so many bytes. Returns the bytes of both directions. */
async function passed(socket: TLSSocket, { taken }: Place, atMost = 10 * LIMIT): Promise<number> {
  let bytes = 0
  const { promise: closed, resolve: close } = Promise.withResolvers<undefined>()
  socket.once('close', () => close(undefined))
  while (!socket.destroyed && bytes < atMost) {
    socket.write(PIECE)
    const data = await Promise.race([once(socket, 'data').catch(() => undefined), closed])
    if (!data) break
    bytes += PIECE.length + (data[0] as Buffer).length
    // Not faster than the API, which uses the same store.
    await taken()
  }
  return bytes
}

const tunnels = ({ connect }: Place) =>
  Promise.all(
    [0, 1].map(async (proxy) => {
      const { socket } = await connect(proxy)
      return tlsOver(socket, { servername: HOST })
    }),
  )

it('lets two replicas together pass the bytes of a run, and not twice', async () => {
  const rig = await place(LIMIT)

  const sent = await Promise.all((await tunnels(rig)).map((socket) => passed(socket, rig)))

  const total = sent.reduce((sum, bytes) => sum + bytes, 0)
  expect(total).toBeGreaterThan(LIMIT / 2)
  expect(total).toBeLessThan(LIMIT + SLACK)
  expect(await rig.taken()).toBeLessThanOrEqual(LIMIT)
  const events = (await rig.store.readEvents(rig.runId, 0, 100)).map(({ event }) => event)
  const reported = events.flatMap((event) => (event.type === 'egress.budget' ? [event.data] : []))
  expect(reported.length).toBeGreaterThan(1)
  expect(reported.at(-1)).toEqual({ kind: 'bytes', used: LIMIT, limit: LIMIT })
  for (const proxy of [0, 1])
    await until('no connection is opened any more', async () =>
      (await rig.connect(proxy)).head.startsWith('HTTP/1.1 429'),
    )
  await until('the run shows it', async () =>
    (await rig.store.readEvents(rig.runId, 0, 100)).some(
      ({ event }) => event.type === 'egress.denied' && event.data.rule === 'budget',
    ),
  )
})

it('passes more with a larger limit', async () => {
  const rig = await place(5 * LIMIT)
  const sent = await Promise.all(
    (await tunnels(rig)).map((socket) => passed(socket, rig, 0.75 * (LIMIT + SLACK))),
  )
  expect(sent.reduce((sum, bytes) => sum + bytes, 0)).toBeGreaterThan(LIMIT + SLACK)
})

it('lets the other replica use the rest of one that drains', async () => {
  const rig = await place(LIMIT)
  const [one] = await tunnels(rig)
  await until('both have a share', async () => (await rig.taken()) > 399_000)
  const before = await rig.taken()
  one?.destroy()

  await rig.proxies[0]?.drain()

  await until('its share is back', async () => (await rig.taken()) < before)
})
