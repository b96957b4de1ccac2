import { once } from 'node:events'
import { createServer as createHttps } from 'node:https'
import { connect, createServer, type Socket } from 'node:net'
import { afterEach, beforeEach, expect, it, onTestFinished, vi } from 'vitest'
import { EGRESS_LEASE } from '../../contracts/egress-control.ts'
import { until } from '../helpers/until.ts'
import { ENTRY, givenRun } from './cluster-credential-rig.ts'
import {
  CANARY,
  deploymentRig,
  givenNetwork,
  open,
  startBroker,
  startControl,
  startProxy,
  tokenFor,
} from './cluster-rig.ts'
import { authority, HOST, listening, portOf, servers, tlsOver } from './proxy-rig.ts'

type Fault = 'cut' | 'silent' | 'half-open'

/** A TCP connection between a replica and the API, which can fail in three ways. */
async function startLink(to: number) {
  const ends = new Set<Socket>()
  const pairs: (readonly [Socket, Socket])[] = []
  let fault: Fault | undefined
  const server = await listening(
    createServer((near) => {
      if (fault === 'cut') {
        near.destroy()
        return
      }
      const far = connect(to, '127.0.0.1')
      for (const end of [near, far]) {
        ends.add(end)
        end.on('error', () => end.destroy())
        end.once('close', () => ends.delete(end))
      }
      near.once('close', () => far.destroy())
      far.once('close', () => near.destroy())
      pairs.push([near, far])
      if (fault) hold(near, far)
      else near.pipe(far).pipe(near)
    }),
  )
  /** The bytes wait, and both sides see an open connection. */
  const hold = (...held: Socket[]) => {
    for (const end of held) end.unpipe().pause()
  }
  onTestFinished(() => {
    for (const end of ends) end.destroy()
  })
  return {
    url: `http://127.0.0.1:${portOf(server)}`,
    fail: (by: Fault) => {
      fault = by
      if (by === 'cut') for (const end of ends) end.destroy()
      else hold(...ends)
    },
    /** New connections work again. Those that were silent go on. */
    heal: () => {
      if (fault === 'silent') for (const [near, far] of pairs) near.pipe(far).pipe(near)
      fault = undefined
    },
  }
}

/** The clock of the lease, of the API's renewals and of the attempts to connect again. Sockets use the clock of the machine. */
beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }))
afterEach(() => void vi.useRealTimers())

const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms)
const SECOND = 1_000

/** Lets the clock run until the condition holds. */
const passUntil = (what: string, condition: () => boolean | Promise<boolean>) =>
  until(what, async () => {
    await pass(SECOND)
    return condition()
  })

async function rig(silenceMs?: number) {
  const site = await servers()
  const deployment = await deploymentRig([site.tls])
  const control = await startControl(deployment)
  const link = await startLink(Number(new URL(control.url).port))
  const replica = await startProxy(deployment, link.url, silenceMs === undefined ? {} : { silenceMs })
  const runId = await givenNetwork(deployment.store)
  const credentials = `Bearer ${await tokenFor({ keys: deployment.keys, runId })}`
  const headOf = async () => {
    const { head, socket } = await open(replica.port, `${HOST}:${site.tls}`, credentials)
    socket.destroy()
    return head
  }
  const tunnel = async () => {
    const { socket } = await open(replica.port, `${HOST}:${site.tls}`, credentials)
    return tlsOver(socket, { servername: HOST })
  }
  await passUntil('the replica has a lease and lists the sandbox', async () =>
    (await headOf()).startsWith('HTTP/1.1 200'),
  )
  return { link, replica, headOf, tunnel }
}

async function echoes(socket: Socket): Promise<string> {
  socket.write('hello')
  const [answer] = (await once(socket, 'data')) as [Buffer]
  return answer.toString()
}

it.each(['cut', 'silent', 'half-open'] as const)(
  'a replica whose control stream is %s opens nothing after a minute, closes its tunnels a minute later, and serves again',
  async (fault) => {
    // Only the stream that stays half open has to be replaced, and waits for the clock of the machine.
    const { link, replica, headOf, tunnel } = await rig(fault === 'half-open' ? 2 * SECOND : undefined)
    const socket = await tunnel()
    let isClosed = false
    socket.once('close', () => {
      isClosed = true
    })

    // The control: more than a lease passes, and the messages of the API renew it.
    const start = performance.now()
    await passUntil('two leases have passed', () => performance.now() - start > 2 * EGRESS_LEASE.ms)
    expect([replica.lease.isHeld, isClosed]).toEqual([true, false])
    expect(await echoes(socket)).toBe('echo hello')

    link.fail(fault)
    // A message may be under way to the replica. It arrives before the answers to these requests.
    for (let round = 0; round < 3; round += 1) await headOf()
    await pass(Math.floor(replica.lease.leftMs) - SECOND)
    expect(await headOf()).toMatch(/^HTTP\/1\.1 200/)
    await pass(SECOND + 1)
    expect(await headOf()).toMatch(/^HTTP\/1\.1 503 .*retry-after: 5.*cannot reach the service/s)
    await pass(EGRESS_LEASE.graceMs - 2 * SECOND)
    expect(await echoes(socket)).toBe('echo hello')
    const closed = once(socket, 'close')
    await pass(2 * SECOND)
    await closed

    link.heal()
    await passUntil('the replica has a lease again', () => replica.lease.isHeld)
    expect(await echoes(await tunnel())).toBe('echo hello')
  },
)

it('the process that inserts credentials forgets their values when it is cut off for two minutes', async () => {
  const authorizations: (string | undefined)[] = []
  const site = await listening(
    createHttps(authority.serverFor(HOST), (request, response) => {
      authorizations.push(request.headers.authorization)
      response.end('reached')
    }),
  )
  const deployment = await deploymentRig([portOf(site)], ENTRY)
  const control = await startControl(deployment)
  const link = await startLink(Number(new URL(control.url).port))
  const replica = await startProxy(deployment, control.url)
  const broker = await startBroker(deployment, link.url, { roots: [authority.certificate] })
  const [root = ''] = control.trust.bundle.split(/(?<=END CERTIFICATE-----\n)/)
  const all = { ...deployment, deployment, control, replica, broker, authorizations, root }
  const { get } = await givenRun({ ...all, target: `${HOST}:${portOf(site)}` })
  await passUntil('both processes list the sandbox', async () => (await get()).endsWith('reached'))
  expect(deployment.reads).toHaveLength(1)
  // The control: the value is kept while the API renews the lease.
  const start = performance.now()
  await passUntil('two leases have passed', () => performance.now() - start > 2 * EGRESS_LEASE.ms)
  expect(await get()).toMatch(/reached$/)
  expect(deployment.reads).toHaveLength(1)

  link.fail('cut')
  await passUntil('the lease is over', () => !broker.lease.isHeld)
  expect(await get()).toMatch(/^HTTP\/1\.1 503 .*cannot reach the service/s)
  await pass(EGRESS_LEASE.graceMs)
  link.heal()
  await passUntil('the process has a lease again', () => broker.lease.isHeld)

  expect(await get()).toMatch(/reached$/)
  expect(deployment.reads).toHaveLength(2)
  expect(new Set(authorizations)).toEqual(new Set([`Bearer ${CANARY}`]))
})
