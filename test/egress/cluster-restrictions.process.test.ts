import { once } from 'node:events'
import type { Socket } from 'node:net'
import { expect, it } from 'vitest'
import type { RestrictionLevel } from '../../contracts/restrictions.ts'
import { createAuditTrail } from '../../runtime/api/runs/audit-trail.ts'
import { createRestrictionCalls } from '../../runtime/api/runs/restrictions/set-restriction.ts'
import { until } from '../helpers/until.ts'
import { ask, deploymentRig, givenNetwork, open, startControl, startProxy, tokenFor } from './cluster-rig.ts'
import { HOST, servers, tlsOver } from './proxy-rig.ts'

const AUTHOR = { owner: 'root', role: 'operator' } as const

/** Two replicas that follow one process of the API, and a sandbox that both of them list. */
async function rig() {
  const site = await servers()
  const deployment = await deploymentRig([site.tls, site.http], { http: 'allow' })
  const { store, keys } = deployment
  const control = await startControl(deployment)
  const replicas = [await startProxy(deployment, control.url), await startProxy(deployment, control.url)]
  const { restrictions } = control
  await restrictions.refresh()
  const deps = { store, restrictions, clock: () => new Date(), redactText: (text: string) => text }
  const calls = createRestrictionCalls(deps, createAuditTrail(keys), () => undefined)
  const runId = await givenNetwork(store)
  const otherId = await givenNetwork(store)
  const credentialsOf = async (id: string) => `Bearer ${await tokenFor({ keys, runId: id })}`

  const target = `${HOST}:${site.tls}`
  const tunnel = async (port: number, id: string) => {
    let opened = await open(port, target, await credentialsOf(id))
    await until('the replica lists the sandbox', async () => {
      if (opened.head.startsWith('HTTP/1.1 200')) return true
      opened = await open(port, target, await credentialsOf(id))
      return false
    })
    return tlsOver(opened.socket, { servername: HOST })
  }
  const answerTo = async (port: number, method: string) => {
    const head = [
      `${method} http://${HOST}:${site.http}/a HTTP/1.1`,
      `Host: ${HOST}:${site.http}`,
      `Proxy-Authorization: ${await credentialsOf(runId)}`,
      ...(method === 'GET' ? [] : ['Content-Length: 0']),
      'Connection: close',
    ]
    return ask(port, [...head, '', ''].join('\r\n'))
  }
  return {
    ...{ runId, otherId, target, tunnel, answerTo },
    ports: replicas.map(({ port }) => port),
    connectAgain: async (port: number) => {
      const { head, socket } = await open(port, target, await credentialsOf(runId))
      socket.destroy()
      return head
    },
    restrict: (level: RestrictionLevel) =>
      calls.setRestriction(AUTHOR, { scope: { kind: 'run', id: runId }, level, reason: 'incident 42' }),
  }
}

async function echoes(socket: Socket): Promise<string> {
  socket.write('hello')
  const [answer] = (await once(socket, 'data')) as [Buffer]
  return answer.toString()
}

it('closes the tunnels of a run without network on every replica, and opens new ones when it is lifted', async () => {
  const { ports, runId, otherId, tunnel, connectAgain, restrict } = await rig()
  const own = await Promise.all(ports.map((port) => tunnel(port, runId)))
  const others = await Promise.all(ports.map((port) => tunnel(port, otherId)))
  // Before the restriction, all of them carry data.
  for (const socket of [...own, ...others]) expect(await echoes(socket)).toBe('echo hello')
  const closed = own.map((socket) => once(socket, 'close'))

  await restrict('no-network')
  await Promise.all(closed)
  const refused = await Promise.all(ports.map(connectAgain))

  for (const head of refused) expect(head).toMatch(/^HTTP\/1\.1 403 .*a person has turned off the network/s)
  for (const socket of others) expect(await echoes(socket)).toBe('echo hello')
  await restrict('normal')
  for (const port of ports) expect(await echoes(await tunnel(port, runId))).toBe('echo hello')
})

it('lets a run that may only read send GET without TLS, and nothing else', async () => {
  const { ports, runId, tunnel, connectAgain, answerTo, restrict } = await rig()
  const [port = 0] = ports
  const socket = await tunnel(port, runId)
  expect(await answerTo(port, 'POST')).toMatch(/^HTTP\/1\.1 200 /)
  const closed = once(socket, 'close')

  await restrict('read-only')
  await closed
  const [get, post, again] = [
    await answerTo(port, 'GET'),
    await answerTo(port, 'POST'),
    await connectAgain(port),
  ]
  await restrict('normal')

  expect(get).toMatch(/^HTTP\/1\.1 200 /)
  expect(post).toMatch(/^HTTP\/1\.1 403 .*restricted this run to reading, so POST is refused/s)
  expect(again).toMatch(/^HTTP\/1\.1 403 .*restricted this run to reading/s)
  await until('a write passes again', async () => (await answerTo(port, 'POST')).startsWith('HTTP/1.1 200 '))
})

it('keeps the tunnels of a frozen run, whose commands are stopped', async () => {
  const { ports, runId, tunnel, restrict } = await rig()
  const [port = 0] = ports
  const socket = await tunnel(port, runId)
  await restrict('no-network')
  await once(socket, 'close')
  await restrict('frozen')

  // The replica has the level when it opens a tunnel again.
  const frozen = await tunnel(port, runId)
  await restrict('normal')

  expect(await echoes(frozen)).toBe('echo hello')
})
