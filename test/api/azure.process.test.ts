import { randomBytes, randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { describe, expect, it, onTestFinished } from 'vitest'
import { startPostgres } from '../../devcluster/service/postgres-server.ts'
import { readConfig } from '../../runtime/api/config.ts'
import { loadKeys } from '../../runtime/api/keys/load-keys.ts'
import { storeLocation } from '../../runtime/api/start/store-location.ts'
import { databaseToken } from '../../runtime/azure/database-token.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { openStore } from '../../runtime/store/open-store.ts'
import { prepareDatabase } from '../../runtime/store/postgres/prepare-database.ts'
import { makeKeys } from '../../tools/make-keys.ts'
import { startAzure } from '../credential/azure-rig.ts'
import { createTestAuthority } from '../fakes/test-authority.ts'
import { freePort } from '../helpers/free-port.ts'
import { DATABASE, SETUP_ROLE, startEntraPostgres } from '../store/entra-postgres.ts'

const aFolder = () => {
  const folder = mkdtempSync(join(tmpdir(), 'aw-keys-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}
const base = { kind: 'base' } as const

describe('keys of a deployment in a vault', () => {
  async function aVault() {
    const azure = await startAzure()
    const folder = aFolder()
    const { files } = await makeKeys(join(folder, 'keys'))
    const context = { stateDir: join(folder, 'state'), slice: base, identity: azure.settings.identity }
    const place = { kind: 'vault', url: azure.settings.vaultUrl ?? '' } as const
    const put = (name: string, value: string | undefined) =>
      azure.vault.setSecret(`agentweaver-${name}`, value ?? '')
    return { files, context, place, put, folder }
  }

  it('are the same for every process that reads them, and for a process with the same keys in a folder', async () => {
    const { files, context, place, put, folder } = await aVault()
    for (const [name, value] of Object.entries(files)) put(name, value)

    const [first, second] = [await loadKeys(place, context), await loadKeys(place, context)]
    const inFolder = await loadKeys({ kind: 'folder', directory: join(folder, 'keys') }, context)

    for (const other of [second, inFolder]) {
      expect(other.keys.keyId).toBe(first.keys.keyId)
      expect(other.keys.ticketKey.kid).toBe(first.keys.ticketKey.kid)
      expect(other.keys.derive('turn')).toEqual(first.keys.derive('turn'))
      expect(other.apiKey).toBe(files['api-key'])
    }
  })

  it('need no first API key, because the store may have one', async () => {
    const { files, context, place, put } = await aVault()
    put('deployment-key', files['deployment-key'])
    put('ticket-key', files['ticket-key'])

    expect((await loadKeys(place, context)).apiKey).toBeUndefined()
  })

  it('stop the service if one is missing, and the error names it', async () => {
    const { files, context, place, put } = await aVault()
    put('deployment-key', files['deployment-key'])

    await expect(loadKeys(place, context)).rejects.toThrow(/agentweaver-ticket-key.*404/)
  })

  it.each([
    ['deployment-key', Buffer.alloc(16).toString('base64')],
    ['deployment-key', 'not-base64!'],
    ['ticket-key', randomBytes(48).toString('base64')],
  ])('are rejected if the %s is malformed, without printing it', async (name, value) => {
    const { files, context, place, put } = await aVault()
    for (const [file, text] of Object.entries(files)) put(file, text)
    put(name, value)

    const failure = await loadKeys(place, context).catch((error: Error) => error)

    expect(failure).toMatchObject({ code: 'invalid_config' })
    expect(String(failure)).not.toContain(value)
  })
})

/** A real PostgreSQL whose role has the most recently issued Entra token as its password. */
async function aDatabase() {
  const authority = createTestAuthority()
  const port = await freePort('127.0.0.1')
  const server = await startPostgres({
    address: '127.0.0.1',
    port,
    // Password authentication in clear text inside TLS, as Azure does it for tokens.
    rule: 'hostssl all all 127.0.0.1/32 password',
    tls: authority.serverFor('localhost'),
  })
  onTestFinished(() => server.stop())
  const query = async (text: string) => {
    const client = new pg.Client({ connectionString: server.url })
    await client.connect()
    await client.query(text)
    await client.end()
  }
  await query('CREATE ROLE api LOGIN')
  await query('CREATE DATABASE agentweaver OWNER api')
  const tokens: string[] = []
  const azure = await startAzure({
    authority,
    onToken: async (token, audience) => {
      tokens.push(audience)
      await query(`ALTER ROLE api PASSWORD '${token}'`)
    },
  })
  const url = `postgresql://api@localhost:${port}/agentweaver?sslmode=verify-full`
  return { url, azure, tokens }
}

describe('a database login with an Azure identity', () => {
  const open = async ({ url, azure }: Pick<Awaited<ReturnType<typeof aDatabase>>, 'url' | 'azure'>) => {
    const store = { kind: 'postgres', url, auth: 'entra' } as const
    const place = storeLocation({ store, identity: azure.settings.identity }, silentLog)
    // PostgreSQL looks the role up before it asks for the password, so the token is set first.
    if (place.kind === 'postgres') await place.password?.()
    return openStore(place, { log: silentLog })
  }

  it('uses a token as the password, over TLS', async () => {
    const database = await aDatabase()

    const store = await open(database)
    onTestFinished(() => store.close())

    expect(await store.countApiKeys()).toBe(0)
    expect(new Set(database.tokens)).toEqual(new Set(['https://ossrdbms-aad.database.windows.net']))
  })

  it('fails without a token (control)', async () => {
    const { url } = await aDatabase()

    await expect(openStore({ kind: 'postgres', url }, { log: silentLog })).rejects.toThrow(/password/)
  })

  it('fails if Azure rejects the identity, and no token is issued', async () => {
    const database = await aDatabase()
    await database.azure.project({ audience: 'somebody-else' })

    await expect(open(database)).rejects.toThrow(/token endpoint responded with 401/)
    expect(database.tokens).toEqual([])
  })

  it('does not send the token if the certificate is for another name', async () => {
    const database = await aDatabase()
    const url = database.url.replace('localhost', '127.0.0.1')

    await expect(open({ ...database, url })).rejects.toThrow(/altnames|IP/i)
  })
})

it("prepares the database with the setup's own token, and the API's token then opens the store", async () => {
  const authority = createTestAuthority()
  const port = await freePort('127.0.0.1')
  const server = await startEntraPostgres({
    address: '127.0.0.1',
    port,
    rule: 'hostssl all all 127.0.0.1/32 password',
    tls: authority.serverFor('localhost'),
  })
  onTestFinished(() => server.stop())
  let role: string = SETUP_ROLE
  const azure = await startAzure({
    authority,
    onToken: async (token) => {
      await server.query(`alter role "${role}" password '${token}'`)
    },
  })
  const { identity } = azure.settings
  const url = (user: string, database: string) =>
    `postgresql://${user}@localhost:${port}/${database}?sslmode=verify-full`
  const login = { database: DATABASE, role: 'agentweaver-api', objectId: randomUUID() }
  const setup = databaseToken(identity, silentLog)
  await setup()

  expect(await prepareDatabase({ url: url(SETUP_ROLE, 'postgres'), password: setup }, login)).toBe('created')

  role = login.role
  const store = { kind: 'postgres', url: url(role, DATABASE), auth: 'entra' } as const
  const place = storeLocation({ store, identity }, silentLog)
  if (place.kind === 'postgres') await place.password?.()
  const opened = await openStore(place, { log: silentLog })
  onTestFinished(() => opened.close())
  expect(await opened.countApiKeys()).toBe(0)
})

const AZURE = {
  AZURE_AUTHORITY_HOST: 'https://login.microsoftonline.com/',
  AZURE_CLIENT_ID: '84bbc060-66ed-4d84-818d-48e59d1e715f',
  AZURE_TENANT_ID: 'e9da86d3-51cf-4a76-82d8-c50195c3f466',
  AZURE_FEDERATED_TOKEN_FILE: '/var/run/secrets/azure/tokens/azure-identity-token',
}
const ENTRA = {
  ...AZURE,
  AGENTWEAVER_DATABASE_AUTH: 'entra',
  DATABASE_URL: 'postgresql://api@db.example/agentweaver?sslmode=verify-full',
}
const CLUSTER = {
  AGENTWEAVER_SANDBOXES: 'kubernetes',
  AGENTWEAVER_DEPLOYMENT_ID: 'test',
  AGENTWEAVER_RUNTIME_CLASS: 'none',
}
const read = (env: Record<string, string | undefined>) => readConfig(env, { home: '/home/ada', cwd: '/srv' })

describe('the configuration of an Azure identity', () => {
  it("reads the identity from the SDKs' variables if a setting needs it", () => {
    expect(read(ENTRA)).toMatchObject({
      identity: {
        authority: 'https://login.microsoftonline.com',
        clientId: AZURE.AZURE_CLIENT_ID,
        tenantId: AZURE.AZURE_TENANT_ID,
        tokenFile: AZURE.AZURE_FEDERATED_TOKEN_FILE,
      },
    })
    expect(read(AZURE).identity).toBeUndefined()
  })

  it.each([
    [
      'a database that would receive the token unencrypted',
      { ...ENTRA, DATABASE_URL: 'postgresql://api@db/x' },
    ],
    [
      'a password in addition to the token',
      { ...ENTRA, DATABASE_URL: ENTRA.DATABASE_URL.replace('api@', 'api:p@') },
    ],
    ['an identity without its tenant', { ...ENTRA, AZURE_TENANT_ID: undefined }],
    ['an authority without TLS', { ...ENTRA, AZURE_AUTHORITY_HOST: 'http://login' }],
    ['a vault without an identity', { AGENTWEAVER_KEY_VAULT: 'https://v.vault.azure.net' }],
    ['a vault without TLS', { ...AZURE, AGENTWEAVER_KEY_VAULT: 'http://v.vault.azure.net' }],
    ['keys in two places', { ...AZURE, AGENTWEAVER_KEY_VAULT: 'https://v', AGENTWEAVER_KEYS_DIR: '/keys' }],
    ['processes that share a database but no keys', { ...CLUSTER, DATABASE_URL: 'postgresql://api@db/x' }],
  ])('rejects %s', (_what, env) => {
    expect(() => read(env)).toThrow(/configuration has problems/)
  })

  it('accepts processes that share a database and their keys (control)', () => {
    const env = { ...CLUSTER, DATABASE_URL: 'postgresql://api@db/x', AGENTWEAVER_KEYS_DIR: '/keys' }

    expect(read(env).keys).toEqual({ kind: 'folder', directory: '/keys' })
  })
})
