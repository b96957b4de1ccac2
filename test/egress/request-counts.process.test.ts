import { once } from 'node:events'
import { describe, expect, it } from 'vitest'
import type { EgressBudget } from '../../contracts/egress.ts'
import type { Question } from '../../runtime/egress/decide.ts'
import { EGRESS_LIMITS } from '../../runtime/egress/limits.ts'
import { RequestCounts } from '../../runtime/egress/request-counts.ts'
import { until } from '../helpers/until.ts'
import { deploymentRig, givenNetwork, open, startControl, startProxy, tokenFor } from './cluster-rig.ts'
import { HOST, OTHER, received, servers, tlsOver } from './proxy-rig.ts'
import { httpsServer, terminatingRig } from './terminate-rig.ts'

const asked = (name: string): Question => ({
  ...{ host: { kind: 'name', name }, port: 443, caller: 'commands', protocol: 'tls' },
})

describe('the requests of a sandbox to one host', () => {
  it('are reported at 50, 80 and 100 percent, and refused beyond', () => {
    const reported: EgressBudget[] = []
    const counts = new RequestCounts(10, (budget) => reported.push(budget))
    for (let sent = 0; sent < 10; sent += 1) {
      expect(counts.refusalOf(asked('a.example.com'))).toBeUndefined()
      counts.add(asked('a.example.com'))
    }
    expect(counts.refusalOf(asked('a.example.com'))).toMatchObject({ rule: 'budget' })
    expect(counts.refusalOf(asked('b.example.com'))).toBeUndefined()
    expect(reported.map(({ used }) => used)).toEqual([5, 8, 10])
  })

  it('do not count twice for a connection whose requests are read', () => {
    const counts = new RequestCounts(1, () => undefined)
    counts.add({ ...asked('a.example.com'), protocol: 'https' })
    expect(counts.refusalOf(asked('a.example.com'))).toBeUndefined()
  })

  it('count together for the names of a wildcard after thousands of them', () => {
    const counts = new RequestCounts(2, () => undefined)
    for (let name = 0; name < 4096; name += 1) counts.add(asked(`n${name}.example.com`))
    counts.add(asked('x.example.com'))
    counts.add(asked('y.example.com'))
    expect(counts.refusalOf(asked('z.example.com'))?.reason).toMatch(/2 requests to other hosts/)
    expect(counts.refusalOf(asked('n1.example.com'))).toBeUndefined()
  })

  it('are refused on an open connection too', async () => {
    const { port, seen } = await httpsServer()
    const { open, denied } = await terminatingRig(port, { limits: { requestsPerHost: 2 } })
    const socket = await open()
    const { closed, text } = received(socket)
    const kept = (path: string) => `GET ${path} HTTP/1.1\r\nHost: ${HOST}:${port}\r\n\r\n`

    socket.write(kept('/first') + kept('/second') + kept('/third'))
    await until('the third is refused', () => /HTTP\/1\.1 429 /.test(text()))
    socket.destroy()
    await closed

    expect(seen.map(({ url }) => url)).toEqual(['/first', '/second'])
    expect(denied()).toMatchObject([{ rule: 'budget', method: 'GET', path: '/third' }])
    await expect(open()).rejects.toThrow()
  })

  it('are refused by a replica, and the run shows it', async () => {
    const site = await servers()
    const deployment = await deploymentRig([site.tls])
    const { store, keys } = deployment
    const { url } = await startControl(deployment)
    const runId = await givenNetwork(store)
    const proxy = await startProxy(deployment, url, { limits: { ...EGRESS_LIMITS, requestsPerHost: 2 } })
    await until('the replica has a lease', () => proxy.lease.isHeld)
    const credentials = `Bearer ${await tokenFor({ keys, runId })}`
    const connect = (host = HOST) => open(proxy.port, `${host}:${site.tls}`, credentials)

    for (let sent = 0; sent < 2; sent += 1) {
      const socket = await tlsOver((await connect()).socket, { servername: HOST })
      socket.write('hello')
      expect(String((await once(socket, 'data'))[0])).toBe('echo hello')
    }
    const refused = await connect()
    const other = await connect(OTHER)

    expect(refused.head).toMatch(
      /^HTTP\/1\.1 429 [\s\S]*has sent 2 requests to registry\.agentweaver-test\.com, its limit/,
    )
    expect(other.head, 'another host is judged by the list').toMatch(/^HTTP\/1\.1 403 /)
    const events = async () => (await store.readEvents(runId, 0, 100)).map(({ event }) => event)
    await until('the run shows both thresholds', async () =>
      (await events()).some((event) => event.type === 'egress.budget' && event.data.used === 2),
    )
    expect(await events()).toContainEqual({
      type: 'egress.budget',
      data: { kind: 'requests', host: HOST, used: 1, limit: 2 },
    })
    await until('the refusal is there', async () =>
      (await events()).some((event) => event.type === 'egress.denied' && event.data.rule === 'budget'),
    )
  })
})
