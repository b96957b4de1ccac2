import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { describe, expect, it } from 'vitest'
import type { EgressReportBatch } from '../../contracts/egress-control.ts'
import { EGRESS_CONTROL_ROUTES } from '../../contracts/routes.ts'
import type { Store } from '../../runtime/store/store.ts'
import { until } from '../helpers/until.ts'
import {
  ask,
  deploymentRig,
  givenNetwork,
  open,
  otherKeys,
  startControl,
  startProxy,
  startRelay,
  tokenFor,
} from './cluster-rig.ts'
import { HOST, OTHER, servers, tlsOver } from './proxy-rig.ts'

async function rig() {
  const site = await servers()
  const deployment = await deploymentRig([site.tls, site.http], { http: 'allow' })
  const control = await startControl(deployment)
  const replica = await startProxy(deployment, control.url)
  await until('the replica has a lease', () => replica.lease.isHeld)
  return { site, deployment, control, replica, ...deployment }
}

type Rig = Awaited<ReturnType<typeof rig>>

/** A run, its token, and an open tunnel, which shows that the replica lists the run. */
async function givenTunnel({ store, keys, replica, site }: Rig) {
  const runId = await givenNetwork(store)
  const token = await tokenFor({ keys, runId })
  const target = `${HOST}:${site.tls}`
  let opened = await open(replica.port, target, `Bearer ${token}`)
  await until('the replica lists the sandbox', async () => {
    if (opened.head.startsWith('HTTP/1.1 200')) return true
    opened = await open(replica.port, target, `Bearer ${token}`)
    return false
  })
  return { runId, token, target, ...opened }
}

const deniedOf = async (store: Store, runId: string) =>
  (await store.readEvents(runId, 0, 100)).flatMap(({ event }) =>
    event.type === 'egress.denied' ? [event.data] : [],
  )

const connectTo = (target: string, ...headers: string[]) =>
  [`CONNECT ${target} HTTP/1.1`, `Host: ${target}`, ...headers, '', ''].join('\r\n')

describe('commands of a pod', () => {
  it('reach a listed host through the relay, and no other host', async () => {
    const all = await rig()
    const { site, store, replica } = all
    const { runId, token, target } = await givenTunnel(all)
    const { relay, port } = await startRelay(`127.0.0.1:${replica.port}`)
    const told: string[] = []
    relay.onRefusal((sentence) => told.push(sentence))
    relay.use({ commandsToken: token })

    const secure = await tlsOver((await open(port, target)).socket, { servername: HOST })
    secure.write('hello')
    const [echo] = (await once(secure, 'data')) as [Buffer]
    const refused = await ask(port, connectTo(`${OTHER}:443`))
    const plain = await ask(
      port,
      `GET http://${HOST}:${site.http}/a HTTP/1.1\r\nHost: ${HOST}:${site.http}\r\nProxy-Authorization: Bearer own\r\nConnection: close\r\n\r\n`,
    )

    expect(echo.toString()).toBe('echo hello')
    expect(refused).toMatch(/^HTTP\/1\.1 403 .*agentweaver-egress: Connection to .* refused/s)
    expect(told.at(-1)).toMatch(/^Connection to other.* refused: the host is not in the list/)
    expect(plain).toMatch(/^HTTP\/1\.1 200 .*plain/s)
    // The token stays between the relay and the proxy.
    expect(site.requests.map(({ headers }) => headers['proxy-authorization'])).toEqual([undefined])
    await until('the refusal is an event', async () =>
      (await deniedOf(store, runId)).some(({ host }) => host === OTHER),
    )
  })

  it('get the reason if no replica runs', async () => {
    const { relay, port } = await startRelay('127.0.0.1:9')
    const told: string[] = []
    relay.onRefusal((sentence) => told.push(sentence))
    relay.use({ commandsToken: 'a.b.c' })

    const answer = await ask(port, connectTo(`${HOST}:443`))

    expect(answer).toMatch(/^HTTP\/1\.1 503 .*retry-after: 5.*egress proxy does not answer/is)
    expect(told).toHaveLength(1)
  })
})

describe('a replica', () => {
  it('accepts the token of a listed sandbox, and no other caller', async () => {
    const all = await rig()
    const { replica, keys, store } = all
    const { runId, token, target } = await givenTunnel(all)
    const hourAgo = new Date(Date.now() - 3_600_000)
    const status = async (...headers: string[]) =>
      (await ask(replica.port, connectTo(target, ...headers))).slice(9, 12)
    const bearer = async (about: Partial<Parameters<typeof tokenFor>[0]>) =>
      status(`Proxy-Authorization: Bearer ${await tokenFor({ keys, runId, ...about })}`)
    const pod = { uid: 'pod-1', addresses: ['127.0.0.1'] }

    expect({
      none: await status(),
      garbage: await status('Proxy-Authorization: Bearer a.b.c'),
      twice: await status(`Proxy-Authorization: Bearer ${token}`, `Proxy-Authorization: Bearer ${token}`),
      truncated: await status(`Proxy-Authorization: Bearer ${token.slice(0, -2)}`),
      otherKey: await bearer({ keys: await otherKeys() }),
      expired: await bearer({ now: hourAgo }),
      otherRun: await bearer({ runId: 'run_other' }),
      otherGeneration: await bearer({ generation: 2 }),
      otherPod: await bearer({ pod: { ...pod, uid: 'pod-2' } }),
    }).toEqual({
      none: '407',
      garbage: '407',
      twice: '407',
      truncated: '407',
      otherKey: '407',
      expired: '407',
      otherRun: '403',
      otherGeneration: '403',
      otherPod: '403',
    })
    // The same request with the right token succeeds, in both schemes.
    const basic = Buffer.from(`agentweaver:${token}`).toString('base64')
    for (const credentials of [`Bearer ${token}`, `Basic ${basic}`]) {
      const { head, socket } = await open(replica.port, target, credentials)
      expect(head).toMatch(/^HTTP\/1\.1 200/)
      socket.destroy()
    }
    expect(await deniedOf(store, runId)).toEqual([])
  })

  it('refuses a token that comes from another address than its pod, and reports it', async () => {
    const all = await rig()
    const { replica, store, keys } = all
    const pod = { uid: 'pod-9', addresses: ['10.9.9.9'] }
    const runId = await givenNetwork(store, {}, pod)
    const token = await tokenFor({ keys, runId, pod })

    await until('the token is refused', async () =>
      (await ask(replica.port, connectTo(`${HOST}:443`, `Proxy-Authorization: Bearer ${token}`))).includes(
        'from another address',
      ),
    )
    await until('the run reports it', async () =>
      (await deniedOf(store, runId)).some(({ rule }) => rule === 'identity'),
    )
  })

  it('closes the connections of a run that is to end, without a message of the process that ends it', async () => {
    const all = await rig()
    const { store } = all
    const { runId, socket } = await givenTunnel(all)
    const closed = once(socket, 'close')

    await store.transaction((tx) => tx.changeRun(runId, { ending: { state: 'cancelled', by: 'ada' } }))

    await closed
    await until('the traffic is an event of the run', async () =>
      (await store.readEvents(runId, 0, 100)).some(({ event }) => event.type === 'egress.summary'),
    )
  })

  it('opens a host that a person allows to the run, and no tunnel before', async () => {
    const all = await rig()
    const { store, keys, replica, control } = all
    const { target } = await givenTunnel(all)
    const runId = await givenNetwork(store, { egress_hosts: [OTHER] })
    const token = await tokenFor({ keys, runId })
    const head = async () => {
      const { head: text, socket } = await open(replica.port, target, `Bearer ${token}`)
      socket.destroy()
      return text
    }
    await until('the replica lists the sandbox', async () => (await head()).includes('settings of this run'))

    const allowed = { host: HOST, reason: 'r', by: 'ada', at: new Date().toISOString() }
    await store.transaction((tx) => tx.changeRun(runId, { allowedHosts: [allowed] }))
    control.hub.changed()

    await until('the replica opens the host', async () => (await head()).startsWith('HTTP/1.1 200'))
  })

  it('opens nothing before it has a lease', async () => {
    const deployment = await deploymentRig([443])
    const replica = await startProxy(deployment, 'http://127.0.0.1:9')

    const answer = await ask(replica.port, connectTo(`${HOST}:443`))

    expect(answer).toMatch(/^HTTP\/1\.1 503 .*retry-after: 5/s)
  })

  it('gets the same state from each process of the API', async () => {
    const all = await rig()
    const { deployment, keys, control } = all
    const { runId, target } = await givenTunnel(all)
    const other = await startControl(deployment)
    const replica = await startProxy(deployment, other.url)
    await until('the other replica has a lease', () => replica.lease.isHeld)

    await control.app.close()
    const { head } = await open(replica.port, target, `Bearer ${await tokenFor({ keys, runId })}`)

    expect(head).toMatch(/^HTTP\/1\.1 200/)
  })
})

describe('the control port', () => {
  const ROUTES = [
    ['GET', `${EGRESS_CONTROL_ROUTES.control}?proxy=${randomUUID()}`],
    ...Object.values(EGRESS_CONTROL_ROUTES).map((route) => ['POST', route] as const),
    ['GET', '/unknown'],
  ] as const
  const CALLERS = [
    ['no token', undefined, 401],
    ["a sandbox's identity token", 'sandbox-token', 401],
    ['a token of a sandbox for this port', 'sandbox-token-for-control', 403],
    ['a token of the proxy for the API', 'proxy-token-for-api', 401],
  ] as const

  it.for(CALLERS)('refuses %s at every route', async ([, token, status]) => {
    const { app } = await startControl(await deploymentRig([443]))
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }

    for (const [method, url] of ROUTES) {
      const answer = await app.inject({ method, url, headers })
      expect(answer.statusCode, `${method} ${url}`).toBe(status)
    }
    const { statusCode } = await app.inject({
      url: '/unknown',
      headers: { authorization: 'Bearer proxy-token' },
    })
    expect(statusCode).toBe(404)
  })

  it('stores each report once, however often a replica sends it', async () => {
    const deployment = await deploymentRig([443])
    const { app } = await startControl(deployment)
    const runId = await givenNetwork(deployment.store)
    const report = (host: string): EgressReportBatch['reports'][number] => ({
      type: 'denied',
      runId,
      generation: 1,
      data: { host, port: 443, rule: 'not-listed', reason: 'r', remedy: 'r', count: 1 },
    })
    const proxy = randomUUID()
    const send = async (first: number, ...reports: EgressReportBatch['reports']) => {
      const payload: EgressReportBatch = { proxy, first, reports }
      const headers = { authorization: 'Bearer proxy-token' }
      const answer = await app.inject({
        ...{ method: 'POST', url: EGRESS_CONTROL_ROUTES.events, payload, headers },
      })
      return answer.statusCode
    }

    expect(await send(1, report('a'), report('b'))).toBe(204)
    expect(await send(1, report('a'), report('b'))).toBe(204)
    expect(await send(2, report('b'), report('c'))).toBe(204)

    expect((await deniedOf(deployment.store, runId)).map(({ host }) => host)).toEqual(['a', 'b', 'c'])
  })
})
