import { expect, it } from 'vitest'
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
import { HOST, OTHER, servers } from './proxy-rig.ts'

/** A sandbox that may not reach `HOST`, and the token of one that may, which a command of the first one has got. */
async function rig() {
  const site = await servers()
  const deployment = await deploymentRig([site.tls, site.http], { http: 'allow' })
  const { store, keys } = deployment
  const control = await startControl(deployment)
  const replica = await startProxy(deployment, control.url)
  const runId = await givenNetwork(store, { egress_hosts: [OTHER] })
  // With the same address: only the token tells the two sandboxes apart.
  const pod = { uid: 'pod-2', addresses: ['127.0.0.1'] }
  const otherId = await givenNetwork(store, {}, pod)
  const stolen = await tokenFor({ keys, runId: otherId, pod })
  const relayOf = async (token: string) => {
    const { relay, port } = await startRelay(`127.0.0.1:${replica.port}`)
    relay.use({ commandsToken: token })
    return port
  }
  const port = await relayOf(await tokenFor({ keys, runId }))
  const otherPort = await relayOf(stolen)
  const target = `${HOST}:${site.tls}`
  const headAt = async (at: number) => {
    const { head, socket } = await open(at, target)
    socket.destroy()
    return head
  }
  await until('the replica lists both sandboxes', async () =>
    (await headAt(port)).includes('settings of this run'),
  )
  await until('the other sandbox reaches the host', async () =>
    (await headAt(otherPort)).startsWith('HTTP/1.1 200'),
  )
  const deniedIn = async (id: string) =>
    (await store.readEvents(id, 0, 1000)).filter(({ event }) => event.type === 'egress.denied').length
  return { site, replica, runId, otherId, stolen, port, otherPort, target, deniedIn }
}

type Rig = Awaited<ReturnType<typeof rig>>

const connectTo = (target: string, more = '') =>
  `CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n${more}\r\n`
const basic = (token: string) => Buffer.from(`agentweaver:${token}`).toString('base64')

/** `TOKEN` is the token of the other sandbox. */
const FORGERIES: readonly (readonly [what: string, header: (token: string) => string])[] = [
  ['the header', (token) => `Proxy-Authorization: Bearer ${token}`],
  [
    'the header twice',
    (token) => `Proxy-Authorization: Bearer ${token}\r\nproxy-authorization:Bearer ${token}`,
  ],
  ['a space before the colon', (token) => `Proxy-Authorization : Bearer ${token}`],
  ['a tab before the colon', (token) => `PROXY-AUTHORIZATION\t:\tBearer ${token}`],
  ['another scheme', (token) => `Proxy-Authorization: Basic ${basic(token)}`],
  ['an underscore', (token) => `Proxy_Authorization: Bearer ${token}`],
  ['the header for servers', (token) => `Authorization: Bearer ${token}`],
  ['a folded line', (token) => `X: a\r\n Proxy-Authorization: Bearer ${token}`],
  ['a folded value', (token) => `Proxy-Authorization:\r\n Bearer ${token}`],
  ['a line feed', (token) => `X: a\nProxy-Authorization: Bearer ${token}`],
  ['a carriage return', (token) => `X: a\rProxy-Authorization: Bearer ${token}`],
  ['a NUL', (token) => `X: a\0\r\nProxy-Authorization\0: Bearer ${token}`],
  [
    'the address of a client',
    (token) => `Agentweaver-Client: 127.0.0.1\r\nProxy-Authorization: Bearer ${token}`,
  ],
]

const statusOf = (answer: string) => Number(/^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1])

it('lets no command use the token of another sandbox, wherever it writes it', async () => {
  const all = await rig()
  const { site, port, otherPort, stolen, target, deniedIn, runId, otherId } = all
  const plain = (more: string) =>
    `GET http://${HOST}:${site.http}/a HTTP/1.1\r\nHost: ${HOST}:${site.http}\r\nConnection: close\r\n${more}\r\n`

  for (const [what, header] of FORGERIES)
    for (const request of [connectTo(target, `${header(stolen)}\r\n`), plain(`${header(stolen)}\r\n`)]) {
      const answer = await ask(port, request)
      expect([400, 403, 407], `${what}: ${answer}`).toContain(statusOf(answer))
    }
  // The head of an empty request gets the token of the relay, and the real one follows.
  for (const start of ['\r\n', '\r\n\r\n', '\n\r\n\r\n']) {
    const answer = await ask(
      port,
      `${start}${connectTo(target, `Proxy-Authorization: Bearer ${stolen}\r\n`)}`,
    )
    expect([400, 407], answer).toContain(statusOf(answer))
  }

  expect(site.requests).toEqual([])
  await until(
    'the refusals are events of the sandbox of the command',
    async () => (await deniedIn(runId)) > 0,
  )
  expect(await deniedIn(otherId)).toBe(0)
  // The control: the same request passes through the relay of the other sandbox.
  expect(statusOf(await ask(otherPort, plain('')))).toBe(200)
  expect(site.requests).toHaveLength(1)
})

it('judges every request of a connection by the token of the relay', async () => {
  const { site, port, otherPort, stolen } = await rig()
  const request = (more: string) =>
    `GET http://${HOST}:${site.http}/a HTTP/1.1\r\nHost: ${HOST}:${site.http}\r\n${more}\r\n`
  const forged = `Proxy-Authorization: Bearer ${stolen}\r\n`

  const statuses = (text: string) => [...text.matchAll(/HTTP\/1\.1 (\d{3})/g)].map(([, status]) => status)
  const answer = await ask(
    port,
    `${request('')}${request(forged)}${request(`${forged}Connection: close\r\n`)}`,
  )

  expect(statuses(answer)).toContain('403')
  expect(statuses(answer)).not.toContain('200')
  expect(site.requests).toEqual([])
  // The control: two requests on one connection, through the relay of the other sandbox.
  expect(statuses(await ask(otherPort, `${request('')}${request('Connection: close\r\n')}`))).toEqual([
    '200',
    '200',
  ])
})

const PLACES: readonly (readonly [what: string, target: (rig: Rig) => string])[] = [
  ['a host that is not in the list', ({ site }) => `${OTHER}:${site.tls}`],
  ['another port of a host', ({ replica }) => `${HOST}:${replica.port}`],
  ['a port of the loopback interface', ({ site }) => `127.0.0.1:${site.tls}`],
  ['the loopback interface by name', ({ site }) => `localhost:${site.tls}`],
  ['the loopback interface of IPv6', ({ site }) => `[::1]:${site.tls}`],
  ['the loopback interface in another spelling', ({ site }) => `2130706433:${site.tls}`],
  ['the relay itself', ({ port }) => `127.0.0.1:${port}`],
  ['the proxy itself', ({ replica }) => `127.0.0.1:${replica.port}`],
  ['the metadata service', () => '169.254.169.254:80'],
  ['the resolver of the cluster', () => '10.96.0.10:53'],
  ['a name for the resolver', () => 'a-secret.exfiltration.example:53'],
]

it.each(PLACES)('opens no tunnel to %s', async (_what, targetOf) => {
  const all = await rig()
  // Through the relay that may reach the listed host.
  const answer = await ask(all.otherPort, connectTo(targetOf(all)))

  expect([400, 403], answer).toContain(statusOf(answer))
  expect(answer).toMatch(/agentweaver-egress: /i)
  expect(all.site.names).toEqual([])
})

it('sends no request of a command to the model of the agent', async () => {
  const { port, otherPort, stolen } = await rig()
  const body = JSON.stringify({ model: 'm', messages: [] })
  const question = (more: string) =>
    `POST /model/v1/chat/completions HTTP/1.1\r\nHost: proxy\r\nContent-Length: ${body.length}\r\nConnection: close\r\n${more}\r\n${body}`

  // The relay adds its token to a header that this route does not read.
  expect(statusOf(await ask(port, question('')))).toBe(401)
  const answer = await ask(otherPort, question(`Authorization: Bearer ${stolen}\r\n`))
  expect(answer).toMatch(/^HTTP\/1\.1 400 .*only the agent itself may call the model/s)
})
