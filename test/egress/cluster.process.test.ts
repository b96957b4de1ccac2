import { once } from 'node:events'
import { describe, expect, it } from 'vitest'
import { until } from '../helpers/until.ts'
import {
  ask,
  deploymentRig,
  givenNetwork,
  open,
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

const eventsOf = async (store: Awaited<ReturnType<typeof rig>>['store'], runId: string) =>
  (await store.readEvents(runId, 0, 100)).map(({ event }) => event)

describe('commands of a pod', () => {
  it('reach a listed host through the relay, and no other host', async () => {
    const { site, store, keys, replica } = await rig()
    const runId = await givenNetwork(store)
    const { relay, port } = await startRelay(`127.0.0.1:${replica.port}`)
    const told: string[] = []
    relay.onRefusal((sentence) => told.push(sentence))
    relay.use({ commandsToken: await tokenFor({ keys, runId }) })
    let listed = await open(port, `${HOST}:${site.tls}`)
    await until('the replica lists the sandbox', async () => {
      if (listed.head.startsWith('HTTP/1.1 200')) return true
      listed = await open(port, `${HOST}:${site.tls}`)
      return false
    })
    const secure = await tlsOver(listed.socket, { servername: HOST })
    secure.write('hello')
    const [echo] = (await once(secure, 'data')) as [Buffer]
    const refused = await ask(port, `CONNECT ${OTHER}:443 HTTP/1.1\r\nHost: ${OTHER}:443\r\n\r\n`)
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
      (await eventsOf(store, runId)).some(
        ({ type, data }) => type === 'egress.denied' && data.host === OTHER,
      ),
    )
  })
})
