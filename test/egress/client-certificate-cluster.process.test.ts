import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { type EgressDestination, MAX_CREDENTIAL_LENGTH } from '../../contracts/egress.ts'
import { loadCredentials } from '../../runtime/api/credentials/credentials.ts'
import { NO_OWN_CREDENTIALS } from '../../runtime/api/credentials/user-credentials.ts'
import { createRunCredentials } from '../../runtime/api/egress/run-credentials.ts'
import { until } from '../helpers/until.ts'
import { builder, clients, demandingServer } from './client-certificate-rig.ts'
import {
  deploymentRig,
  givenNetwork,
  open,
  startBroker,
  startControl,
  startProxy,
  startRelay,
  tokenFor,
} from './cluster-rig.ts'
import { authority, HOST, received, tlsOver } from './proxy-rig.ts'

const ENTRY: Partial<EgressDestination> = {
  requests: [{ methods: ['GET'], paths: ['/a/**'] }],
  authority: 'unsigned',
  credential: 'corp',
}
/** As long as a value may be. Its line breaks make the answer of the API longer. */
const CHAIN = Math.floor((MAX_CREDENTIAL_LENGTH - builder.pem.length) / clients.certificate.length)
const LONG = `${builder.certificate}${clients.certificate.repeat(CHAIN)}${builder.key}`

/** Both processes of a replica, an API with a Secret that has the certificate, and a run whose commands may use it. */
async function clusterRig() {
  const { port, seen } = await demandingServer()
  const folder = mkdtempSync(join(tmpdir(), 'aw-client-certificate-cluster-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const write = (pem: string) => writeFileSync(join(folder, 'corp'), pem, { mode: 0o440 })
  write(LONG)
  writeFileSync(
    join(folder, 'credentials.yaml'),
    'apiVersion: agentweaver.io/v1\nkind: Credentials\ncredentials: [{ id: corp, kind: client-certificate, file: corp }]\n',
  )
  const operators = await loadCredentials(join(folder, 'credentials.yaml'), { place: 'pod' })
  const rig = await deploymentRig([port], ENTRY)
  const credentials = createRunCredentials(operators, NO_OWN_CREDENTIALS, rig.keys.derive('placeholder'))
  const deployment = { ...rig, credentials }
  const control = await startControl(deployment)
  const states: string[] = []
  onTestFinished(control.hub.subscribe(({ proxy }) => void states.push(JSON.stringify(proxy))))
  const replica = await startProxy(deployment, control.url)
  const broker = await startBroker(deployment, control.url, { roots: [authority.certificate] })
  await until('both processes have a lease', () => replica.lease.isHeld && broker.lease.isHeld)
  const runId = await givenNetwork(rig.store)
  const { relay, port: relayPort } = await startRelay(`127.0.0.1:${replica.port}`)
  relay.use({ commandsToken: await tokenFor({ keys: rig.keys, runId }) })
  const [root = ''] = control.trust.bundle.split(/(?<=END CERTIFICATE-----\n)/)
  const target = `${HOST}:${port}`
  const get = async (path = '/a/b') => {
    const { socket, head } = await open(relayPort, target)
    if (!head.startsWith('HTTP/1.1 200')) return head
    const secure = await tlsOver(socket, { servername: HOST, ca: root })
    const { closed } = received(secure)
    secure.write(`GET ${path} HTTP/1.1\r\nHost: ${target}\r\nConnection: close\r\n\r\n`)
    return (await closed).toString('latin1')
  }
  const events = async () => (await rig.store.readEvents(runId, 0, 100)).map(({ event }) => event)
  return { get, events, seen, states, control, write, runId }
}

it('is presented for a pod by the process that inserts credentials, and is nowhere else', async () => {
  const { get, events, seen, states, control, runId } = await clusterRig()

  expect(await get()).toMatch(/^HTTP\/1\.1 200 [\s\S]*hello builder/)
  expect(await get('/b')).toMatch(/^HTTP\/1\.1 403 .*the path/)

  expect(seen.subjects).toEqual(['builder'])
  await until('the use is an event', async () =>
    (await events()).some(({ type }) => type === 'egress.credential_used'),
  )
  const told = JSON.stringify([await events(), states, control.lines])
  const [, line = ''] = builder.key.split('\n')
  expect(told).toContain('client-certificate')
  expect(told).toContain(runId)
  expect(told).not.toContain(line)
})

it('that cannot be read is a refusal, which the log of the API explains without the value', async () => {
  const { get, seen, control, write } = await clusterRig()
  write(builder.key)

  expect(await get()).toMatch(/^HTTP\/1\.1 403 .*the credential corp cannot be read/)

  expect(seen.connections).toBe(0)
  const log = control.lines.join('\n')
  expect(log).toContain('credential corp')
  expect(log).toContain('no certificate')
  expect(log).not.toContain(builder.key.split('\n')[1])
})

it('that has expired is a refusal with the date, for the command that needs it', async () => {
  const { get, seen, write } = await clusterRig()
  write(clients.clientFor('late', { from: new Date(Date.now() - 40 * 86_400_000) }).pem)

  expect(await get()).toMatch(/^HTTP\/1\.1 403 .*the client certificate corp cannot be used: .*expired at 20/)

  expect(seen.connections).toBe(0)
})
