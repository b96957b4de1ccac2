import { spawn } from 'node:child_process'
import { readdirSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import { EGRESS_CONTROL_ROUTES } from '../../contracts/routes.ts'
import { createUserVault } from '../../runtime/api/credentials/user-vault.ts'
import { startAzure } from '../credential/azure-rig.ts'
import { startNameProxy } from '../fakes/name-proxy.ts'
import { COMPILE_CACHE } from '../helpers/compile-cache.ts'
import { until } from '../helpers/until.ts'
import { ACCEPTED, ADA, ANONYMOUS, givenDeployment, startServer, WRONG } from './credential-check-rig.ts'
import { authority, HOST } from './proxy-rig.ts'
import { freePort } from './replica-process.ts'

const SERVER = fileURLToPath(new URL('../../runtime/egress/cluster/server.ts', import.meta.url))
const GITHUB = 'api.github.com'

const codeOf = (work: Promise<unknown>) =>
  work.then(
    (answer) => answer,
    ({ code, message }: { code?: string; message: string }) => ({ code, message }),
  )

describe('a credential that a person sets in a cluster', () => {
  it('is checked by a replica of the proxy, and not stored if its server refuses it', async () => {
    const server = await startServer()
    const { startApi, startReplica, store } = await givenDeployment(server)
    const api = await startApi()
    await startReplica(api.url)

    expect(await codeOf(api.set(WRONG))).toEqual({
      code: 'invalid_request',
      message: `The git server ${HOST} does not accept this value: 401 Unauthorized. Nothing was stored.`,
    })
    expect(await store.listUserCredentials()).toEqual([])
    expect((await api.set(ACCEPTED)).unchecked).toBeUndefined()

    expect(await store.listUserCredentials()).toHaveLength(1)
    expect(server.got).toEqual([
      ANONYMOUS,
      `${ANONYMOUS} oauth2:${WRONG}`,
      ANONYMOUS,
      `${ANONYMOUS} oauth2:${ACCEPTED}`,
    ])
    expect(await store.listCredentialChecks()).toEqual([])
    expect(api.lines.join('')).not.toMatch(new RegExp(`${WRONG}|${ACCEPTED}`))
  })

  it('is checked at sockets that are not in the folder which the containers of the proxy share', async () => {
    const server = await startServer()
    const { rig, startApi, startReplica } = await givenDeployment(server)
    const api = await startApi()
    await startReplica(api.url)
    const [shared, own]: [string[], string[]] = [[], []]
    server.state.onRequest = () => {
      shared.push(...readdirSync(rig.folder))
      own.push(...readdirSync(tmpdir()))
    }

    await api.set(ACCEPTED)
    await api.set(ACCEPTED, 'openai-compatible')

    const isOfCheck = (name: string) => name.startsWith('aw-check-')
    expect(shared).toContain('broker')
    expect(shared.filter(isOfCheck)).toEqual([])
    // The container that checks credentials has them in its own folder.
    expect(own.filter(isOfCheck)).not.toEqual([])
  })

  it('is checked although the replica is connected to another process of the API, and only once', async () => {
    const server = await startServer()
    const { startApi, startReplica } = await givenDeployment(server)
    const [asked, connected] = [await startApi(), await startApi()]
    await startReplica(connected.url)
    await startReplica(connected.url)
    const news: string[] = []
    onTestFinished(connected.hub.subscribe((states) => void news.push(JSON.stringify(states))))

    expect((await asked.set(ACCEPTED)).unchecked).toBeUndefined()

    expect(server.got).toEqual([ANONYMOUS, `${ANONYMOUS} oauth2:${ACCEPTED}`])
    const withChecks = news.filter((text) => !text.includes('"checks":[]'))
    expect(withChecks).not.toEqual([])
    expect(news.join('')).not.toContain(ACCEPTED)
  })

  it('is the key of the model server, which the replica inserts into the request of an agent', async () => {
    const server = await startServer()
    const { startApi, startReplica } = await givenDeployment(server)
    const api = await startApi()
    await startReplica(api.url)

    const refused = await codeOf(api.set(WRONG, 'openai-compatible'))
    const accepted = await api.set(ACCEPTED, 'openai-compatible')

    expect(refused).toMatchObject({
      message: expect.stringContaining('does not accept this value: 401 Unauthorized. Nothing was stored.'),
    })
    expect(accepted.unchecked).toBeUndefined()
    expect(server.got).toEqual([`GET /v1/models ${WRONG}`, `GET /v1/models ${ACCEPTED}`])
  })
})

it('fails at once if the data of its owner is erased during the check, and stores nothing', async () => {
  const { startApi, startReplica, store } = await givenDeployment({ port: 443 })
  const api = await startApi()
  await startReplica(api.url, { isWithBroker: false })

  const failure = codeOf(api.set(ACCEPTED))
  await until('the check waits', async () => (await store.listCredentialChecks()).length === 1)
  await store.eraseOwner(ADA.owner)

  expect(await failure).toMatchObject({
    code: 'conflict',
    message: expect.stringContaining('An operator erased your data'),
  })
  expect(await store.listUserCredentials()).toEqual([])
})

it('is refused with the next step and not stored while 4 others of its owner are checked', async () => {
  const { startApi, startReplica, store } = await givenDeployment({ port: 443, checkMs: 60_000 })
  const api = await startApi()
  await startReplica(api.url, { isWithBroker: false })
  const others = Promise.allSettled(Array.from({ length: 4 }, () => api.set(WRONG)))
  await until('4 checks wait', async () => (await store.listCredentialChecks()).length === 4)

  expect(await codeOf(api.set(ACCEPTED, 'openai-compatible'))).toEqual({
    code: 'conflict',
    message: '4 of your credentials are being checked, which is the limit. Set this one again in 60 seconds.',
  })
  expect(await store.listUserCredentials()).toEqual([])
  await store.eraseOwner(ADA.owner)
  await others
})

describe('a credential that cannot be checked in a cluster is stored, and the answer has the reason', () => {
  it('without a replica of the proxy', async () => {
    const { startApi, store } = await givenDeployment({ port: 443 })
    const api = await startApi()

    const { unchecked } = await api.set(WRONG)

    expect(unchecked).toBe('no replica of the egress proxy is connected to the service')
    expect(await store.listUserCredentials()).toHaveLength(1)
  })

  it('if no replica asks in time', async () => {
    const { startApi, startReplica, store } = await givenDeployment({ port: 443, checkMs: 600 })
    const api = await startApi()
    await startReplica(api.url, { isWithBroker: false })

    const { unchecked } = await api.set(WRONG)

    expect(unchecked).toBe('no replica of the egress proxy has asked its server within 0.6 seconds')
    expect(await store.listUserCredentials()).toHaveLength(1)
    expect(await store.listCredentialChecks()).toEqual([])
  })

  it('if the ceiling leaves its host out, or if everybody may read the repository', async () => {
    const server = await startServer()
    const withheld = await givenDeployment({ ...server, hosts: ['registry.npmjs.org'] })
    const api = await withheld.startApi()
    await withheld.startReplica(api.url)

    expect((await api.set(WRONG)).unchecked).toBe(
      `the ceiling of this service does not allow ${HOST} (egress_hosts)`,
    )
    expect(server.got).toEqual([])

    const open = await givenDeployment(server)
    server.state.isPublic = true
    const other = await open.startApi()
    await open.startReplica(other.url)
    expect((await other.set(WRONG)).unchecked).toBe('everybody may read /team/app.git there')
    expect(server.got).toEqual([ANONYMOUS])
  })

  it('if the rules of the proxy for addresses refuse its server, which gets nothing', async () => {
    const server = await startServer()
    const { startApi, startReplica } = await givenDeployment({ ...server, isLocalAllowed: false })
    const api = await startApi()
    await startReplica(api.url)

    for (const kind of ['git', 'openai-compatible'] as const)
      expect((await api.set(WRONG, kind)).unchecked).toMatch(
        /^the egress proxy did not let the request pass: .*address/,
      )
    expect(server.got).toEqual([])
  })

  it('if its server responds with 101, and later checks still run', async () => {
    const server = await startServer()
    const { startApi, startReplica } = await givenDeployment(server)
    const api = await startApi()
    await startReplica(api.url)
    server.state.hasOtherProtocol = true

    // More than a replica carries out at the same time.
    for (let count = 0; count < 9; count += 1)
      expect((await api.set(WRONG)).unchecked).toBe('its server could not be asked: it changed the protocol')
    server.state.hasOtherProtocol = false
    expect((await api.set(ACCEPTED)).unchecked).toBeUndefined()
  })
})

describe('a credential in the vault', () => {
  /** The process that inserts credentials, as the program of its container. */
  async function place() {
    const server = await startServer([GITHUB])
    const azure = await startAzure({ authority, may: ['setSecret', 'deleteSecret'] })
    const { identity, vaultUrl = '' } = azure.settings
    const { store, rig, startApi, startReplica } = await givenDeployment({
      port: 443,
      vault: createUserVault({ identity, vaultUrl, nameKey: new Uint8Array(32), budgetMs: 120_000 }),
    })
    const api = await startApi()
    await startReplica(api.url, { isWithBroker: false })
    const names = await startNameProxy(
      new Map([
        ['login.microsoftonline.com', azure.entra.port],
        ['aw-users.vault.azure.net', azure.vault.port],
        [GITHUB, server.port],
      ]),
    )
    onTestFinished(() => names.close())
    const ca = join(rig.folder, 'ca.pem')
    writeFileSync(ca, authority.certificate)
    const output: string[] = []
    const child = spawn(process.execPath, [SERVER, 'credentials'], {
      env: {
        ...COMPILE_CACHE,
        AGENTWEAVER_EGRESS_CONTROL_URL: api.url,
        AGENTWEAVER_EGRESS_CONTROL_TOKEN_FILE: rig.credentialsTokenFile,
        AGENTWEAVER_EGRESS_HEALTH_PORT: String(await freePort()),
        AGENTWEAVER_EGRESS_BROKER_SOCKET: join(rig.folder, 'b'),
        AGENTWEAVER_EGRESS_UPSTREAM_PROXY: names.url,
        AGENTWEAVER_EGRESS_VAULT_URL: vaultUrl,
        AGENTWEAVER_EGRESS_LOG_LEVEL: 'debug',
        AZURE_CLIENT_ID: azure.reader.clientId,
        AZURE_TENANT_ID: azure.reader.tenantId,
        AZURE_FEDERATED_TOKEN_FILE: azure.reader.tokenFile,
        AZURE_AUTHORITY_HOST: azure.reader.authority,
        NODE_EXTRA_CA_CERTS: ca,
      },
    })
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => void output.push(chunk.toString()))
    onTestFinished(() => void child.kill('SIGKILL'))
    await until('the process has a lease', () => output.join('').includes('got a lease'))
    return { azure, server, store, api, output }
  }

  it('is read and checked by the process that inserts credentials, whose log does not contain it', async () => {
    const { azure, server, store, api, output } = await place()

    expect(await codeOf(api.set(WRONG, 'github'))).toEqual({
      code: 'invalid_request',
      message:
        'GitHub does not accept this value: 401 Unauthorized. It is not used. The vault keeps it in an old version until your data is erased.',
    })
    expect(await store.listUserCredentials()).toEqual([])
    const [name = ''] = azure.vault.names()
    expect(azure.vault.versionsOf(name).map(({ enabled }) => enabled)).toEqual([true, false])

    expect((await api.set(ACCEPTED, 'github')).unchecked).toBeUndefined()
    const version = azure.vault.versionsOf(name).at(-1)
    expect(version).toMatchObject({ value: ACCEPTED, enabled: true })
    expect(JSON.stringify(await store.listUserCredentials(ADA.owner))).toContain(version?.id)

    expect(server.got).toEqual([`GET /rate_limit ${WRONG}`, `GET /rate_limit ${ACCEPTED}`])
    // The vault got each value once, and gave each to the reader once, by its version.
    const reads = azure.vault.requests.filter(({ method }) => method === 'GET')
    expect(reads.filter(({ headers }) => headers.authorization !== undefined)).toHaveLength(2)
    expect(`${output.join('')}${api.lines.join('')}`).not.toMatch(new RegExp(`${WRONG}|${ACCEPTED}|${name}`))
  })

  it('is stored without a check if the replica may not read it', async () => {
    const { azure, server, store, api } = await place()
    azure.vault.roles[azure.reader.clientId] = []

    const { unchecked } = await api.set(WRONG, 'github')

    expect(unchecked).toContain('the egress proxy could not read it: the vault responded with 403')
    expect(await store.listUserCredentials()).toHaveLength(1)
    expect(server.got).toEqual([])
  })
})

describe('the routes for checks', () => {
  async function place() {
    const { startApi, rig } = await givenDeployment({ port: 443 })
    const api = await startApi()
    const seal = api.users.seal
    const of = { owner: 'ada', kind: 'git', target: HOST } as const
    const fingerprint = seal.fingerprintOf(of, ACCEPTED)
    const credential = {
      ...{ ...of, fingerprint, sealed: seal.seal(of, fingerprint, ACCEPTED), keyId: 'k1' },
      setAt: new Date().toISOString(),
    }
    const plan = { kind: 'host', path: '/', isPublicPossible: false } as const
    const destination = {
      ...{ host: HOST, ports: [443], methods: ['GET'], phases: ['work' as const], caller: 'any' as const },
    }
    const id = crypto.randomUUID()
    const insert = (ms: number) =>
      rig.store.insertCredentialCheck({ id, credential, plan: { ...plan, destination } }, ms)
    const post = async (url: string, token: string, payload: object) => {
      const answer = await api.app.inject({
        ...{ method: 'POST', url, headers: { authorization: `Bearer ${token}` }, payload },
      })
      return { status: answer.statusCode, hasValue: answer.payload.includes(ACCEPTED) }
    }
    const begin = (token: string) => post(EGRESS_CONTROL_ROUTES.checks, token, { id })
    const verdict = { id, verdict: { verdict: 'accepted' } }
    const end = (token: string) => post(EGRESS_CONTROL_ROUTES.verdicts, token, verdict)
    return { store: rig.store, id, insert, begin, end }
  }
  const OTHERS = ['proxy-token', 'sandbox-token-for-credentials', 'proxy-token-for-api', ''] as const

  it('give a check to the process that inserts credentials, once, and to no other caller', async () => {
    const { insert, begin, end, store, id } = await place()
    await insert(60_000)

    for (const token of OTHERS) {
      expect([token, (await begin(token)).hasValue]).toEqual([token, false])
      expect([401, 403]).toContain((await end(token)).status)
    }
    // A verdict about a check that nobody has begun.
    await end('credentials-token')
    expect(await store.readCredentialVerdict(id)).toBe('waiting')

    expect(await begin('credentials-token')).toEqual({ status: 200, hasValue: true })
    expect(await begin('credentials-token')).toEqual({ status: 404, hasValue: false })
    expect((await end('credentials-token')).status).toBe(204)
    expect(await store.readCredentialVerdict(id)).toEqual({ verdict: 'accepted' })
  })

  it('give no check whose time is over', async () => {
    const { insert, begin } = await place()
    await insert(0)

    expect(await begin('credentials-token')).toEqual({ status: 404, hasValue: false })
  })
})
