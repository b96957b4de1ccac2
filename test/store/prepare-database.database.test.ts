import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { silentLog } from '../../runtime/kit/log.ts'
import { openStore } from '../../runtime/store/open-store.ts'
import { prepareDatabase } from '../../runtime/store/postgres/prepare-database.ts'
import { requestPostgres } from '../helpers/postgres.ts'
import { DATABASE, SETUP_ROLE, startEntraPostgres } from './entra-postgres.ts'

const hasPostgres = 'url' in (await requestPostgres())

describe.skipIf(!hasPostgres)('the setup of the database for the API', () => {
  let server: Awaited<ReturnType<typeof startEntraPostgres>>
  beforeAll(async () => {
    server = await startEntraPostgres()
  })
  afterAll(() => server?.stop())

  let count = 0
  const aLogin = () => ({ database: DATABASE, role: `api-${++count}`, objectId: randomUUID() })
  const prepare = (login: ReturnType<typeof aLogin>) =>
    prepareDatabase({ url: server.at('postgres', SETUP_ROLE) }, login)
  const labelOf = async (role: string) =>
    (
      await server.query<{ label: string }>(
        `select label from pg_seclabels where objtype = 'role' and objname = '"${role}"'`,
      )
    )[0]?.label

  it('creates a role for the identity that opens the store and makes its tables', async () => {
    const login = aLogin()

    expect(await prepare(login)).toBe('created')

    expect(await labelOf(login.role)).toBe(`aadauth,oid=${login.objectId},type=service`)
    const store = await openStore(
      { kind: 'postgres', url: server.at(DATABASE, login.role) },
      { log: silentLog },
    )
    expect(await store.countApiKeys()).toBe(0)
    await store.close()
    await server.query(`drop owned by "${login.role}"`, server.at(DATABASE))
  })

  it('changes nothing the second time, and two at once do not collide', async () => {
    const login = aLogin()

    const first = await Promise.all([prepare(login), prepare(login)])

    expect(first.toSorted()).toEqual(['created', 'there already'])
    expect(await prepare(login)).toBe('there already')
  })

  it('lets no other role into the database', async () => {
    await server.query('create role stranger login')
    await server.query('create database open_to_all')
    const login = aLogin()
    await prepare(login)

    await expect(server.query('select 1', server.at(DATABASE, 'stranger'))).rejects.toThrow(
      /permission denied for database/,
    )
    // An unprepared database accepts every role.
    expect(await server.query('select 1', server.at('open_to_all', 'stranger'))).toHaveLength(1)
  })

  it('gives the role no right over the server, nor over the database itself', async () => {
    const login = aLogin()
    await prepare(login)
    const asApi = (text: string) => server.query(text, server.at(DATABASE, login.role))

    await expect(asApi('create role more')).rejects.toThrow(/permission denied/)
    await expect(asApi(`alter database ${DATABASE} rename to taken`)).rejects.toThrow(/must be owner/)
    await expect(asApi(`set role "${SETUP_ROLE}"`)).rejects.toThrow(/permission denied/)
  })

  it.each([
    ['a member of azure_pg_admin', (role: string) => `create role "${role}" login in role azure_pg_admin`],
    ['a role that makes roles', (role: string) => `create role "${role}" login createrole`],
    [
      'an administrator of Entra',
      (role: string) =>
        `create role "${role}" login; select pg_catalog.azure_label('${role}', 'aadauth,oid=${randomUUID()},type=group,admin')`,
    ],
  ])('refuses %s, to which no identity of the API may be mapped', async (_what, make) => {
    const login = aLogin()
    await server.query(make(login.role))

    await expect(prepare(login)).rejects.toThrow(`"${login.role}" administers the server`)
  })

  // This server has no label provider, so it rejects the statement after it has parsed it and found the role.
  it.each([
    ['was made by hand', (role: string) => `create role "${role}"`],
    [
      'belongs to an identity that was recreated',
      (role: string) =>
        `create role "${role}" login; select pg_catalog.azure_label('${role}', 'aadauth,oid=${randomUUID()},type=service')`,
    ],
  ])('maps a role that %s to the identity, and says what failed', async (_what, make) => {
    const login = aLogin()
    await server.query(make(login.role))
    // On Azure, administrators administer every role. On this server, they administer only the roles that they created.
    await server.query(`grant "${login.role}" to "${SETUP_ROLE}" with admin option`)

    await expect(prepare(login)).rejects.toThrow(
      `mapping the role "${login.role}" to the identity ${login.objectId} failed: security label provider "pgaadauth" is not loaded`,
    )
  })

  it('fails if the grants have no effect because another role owns the database', async () => {
    await server.query('create database of_another')
    const login = { ...aLogin(), database: 'of_another' }

    await expect(prepare(login)).rejects.toThrow(
      /"api-\d+" had no effect: it may not create tables; every role may connect.*azure_pg_admin/,
    )
  })

  it('names the server that it cannot reach', async () => {
    const nowhere = { url: 'postgresql://setup@127.0.0.1:1/postgres' }

    await expect(prepareDatabase(nowhere, aLogin())).rejects.toThrow(
      /connecting to the database "postgres" at 127\.0\.0\.1 failed: .*ECONNREFUSED/,
    )
  })
})
