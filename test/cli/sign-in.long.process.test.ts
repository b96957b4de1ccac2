import { readdir, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { CLI_CLIENT, type OidcServer } from '../fakes/oidc-server.ts'
import { startFakeService } from './fake-service.ts'
import { pageOf, aPerson as personAt, useTeam } from './sign-in-rig.ts'

const use = useTeam()
let server: OidcServer
let service: ReturnType<typeof use>['service']
beforeAll(() => {
  ;({ server, service } = use())
})
const aPerson = (name: string, url = service.url) => personAt(name, url)
const EXPIRED = { expiresAt: '2026-01-01T00:00:00.000Z' }

describe('login with a browser', () => {
  test('saves tokens for the URL, and every command uses them', async () => {
    const ada = await aPerson('ada')

    const { status, stdout } = await ada.signIn()
    const whoami = await ada.cli('whoami')
    const json = JSON.parse((await ada.cli('whoami', '--json')).stdout)
    const runs = await ada.cli('runs', '--json')

    expect(stdout).toContain(`You are signed in to ${service.url}: you are ${server.issuer}#t1/ada, user.`)
    expect(whoami.stdout).toMatch(new RegExp(`signed in +at ${server.issuer}`))
    expect(json).toMatchObject({ owner: `${server.issuer}#t1/ada`, issuer: server.issuer })
    expect([status, whoami.status, runs.status]).toEqual([0, 0, 0])
    expect((await stat(ada.file)).mode & 0o777).toBe(0o600)
    expect((await stat(join(ada.file, '..'))).mode & 0o777).toBe(0o700)
  })

  test('uses PKCE, a state and a nonce, and a new redirect port each time', async () => {
    const ada = await aPerson('ada')
    let page = new URL('http://x')
    await ada.login(async (text) => {
      page = new URL(pageOf(text))
      await ada.browser.open(page.href)
    })
    const { searchParams } = page
    expect(searchParams.get('code_challenge_method')).toBe('S256')
    expect(searchParams.get('state')?.length).toBeGreaterThan(20)
    expect(searchParams.get('nonce')?.length).toBeGreaterThan(20)
    expect(searchParams.get('redirect_uri')).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/callback$/)
  })

  test('ignores a response with another state, and takes the right one afterwards', async () => {
    const ada = await aPerson('ada')
    const answers: number[] = []
    const { status } = await ada.login(async (text) => {
      const page = new URL(pageOf(text))
      const redirect = page.searchParams.get('redirect_uri') ?? ''
      const state = page.searchParams.get('state') ?? ''
      const get = async (query: string, headers: Record<string, string> = {}) =>
        answers.push((await fetch(`${redirect}${query}`, { headers })).status)
      await get('?code=stolen&state=wrong')
      await get('?code=stolen')
      await get(`?code=stolen&state=${state}&state=${state}`)
      expect(await readdir(ada.home)).toEqual([])
      await ada.browser.open(page.href)
    })
    expect(answers).toEqual([400, 400, 400])
    expect(status).toBe(0)
  })

  test('fails with the reason if the code is not from this sign-in', async () => {
    const ada = await aPerson('ada')
    const { status, stderr } = await ada.login(async (text) => {
      const page = new URL(pageOf(text)).searchParams
      const query = new URLSearchParams({
        code: 'stolen',
        state: page.get('state') ?? '',
        iss: server.issuer,
      })
      await fetch(`${page.get('redirect_uri')}?${query}`)
    })
    expect([status, stderr]).toEqual([4, expect.stringContaining('did not sign you in: invalid_grant')])
    expect(await readdir(ada.home)).toEqual([])
  })

  test.for([
    ['nonce', 'another-nonce', 'did not sign you in', 6],
    ['code_challenge', 'A'.repeat(43), 'did not sign you in: invalid_grant', 4],
  ] as const)('refuses tokens for a request with another %s', async ([name, value, words, expected]) => {
    const ada = await aPerson('ada')
    const { status, stderr } = await ada.login(async (text) => {
      const page = new URL(pageOf(text))
      page.searchParams.set(name, value)
      await ada.browser.open(page.href)
    })
    expect(status).toBe(expected)
    expect(stderr).toContain(words)
    expect(await readdir(ada.home)).toEqual([])
  })

  test('refuses a response that names another issuer', async () => {
    const ada = await aPerson('ada')
    const { status, stderr } = await ada.login(async (text) => {
      const page = new URL(pageOf(text)).searchParams
      const state = page.get('state') ?? ''
      const query = new URLSearchParams({ code: 'stolen', state, iss: 'https://evil.example.com' })
      await fetch(`${page.get('redirect_uri')}?${query}`)
    })
    expect(status).toBe(6)
    expect(stderr).toContain('did not sign you in')
    expect(await readdir(ada.home)).toEqual([])
  })

  test('ends after Ctrl-C and saves nothing', async () => {
    const ada = await aPerson('ada')
    const { status } = await ada.login(async () => 'SIGINT')
    expect(status).toBe(130)
    expect(await readdir(ada.home)).toEqual([])
  })

  test('saves nothing for a person without a role, and revokes the refresh token', async () => {
    const guest = await aPerson('guest')
    const { status, stderr } = await guest.signIn()
    expect([status, stderr]).toEqual([6, expect.stringContaining('no value of the claim roles')])
    expect(await readdir(guest.home)).toEqual([])
    expect(server.paths.at(-1)).toBe('/token/revocation')
  })
})

test('login with a device code', async () => {
  const bob = await aPerson('bob')
  const { status, stdout } = await bob.login((text) => {
    const [, page = '', code = ''] = /Open (\S+) on any device, and enter the code (\S+)/.exec(text) ?? []
    return bob.browser.enterCode(page, code)
  }, '--device')
  expect(stdout).toContain(`you are ${server.issuer}#t1/bob, user`)
  expect([status, (await bob.cli('runs')).status]).toEqual([0, 0])
})

describe('an access token', () => {
  test('that expires is renewed before its use, with a refresh token that rotates', async () => {
    const ada = await aPerson('ada')
    await ada.signIn()
    const first = await ada.saved()
    await ada.change(EXPIRED)

    expect((await ada.cli('runs')).status).toBe(0)

    const second = await ada.saved()
    expect(second.accessToken).not.toBe(first.accessToken)
    expect(second.refreshToken).not.toBe(first.refreshToken)
    expect((await stat(ada.file)).mode & 0o777).toBe(0o600)
  })

  test('that the service refuses is renewed once', async () => {
    const ada = await aPerson('ada')
    await ada.signIn()
    await ada.change({ accessToken: 'refused' })

    expect((await ada.cli('runs')).status).toBe(0)
    expect((await ada.saved()).accessToken).not.toBe('refused')
  })

  test('is renewed by one of several processes', async () => {
    const ada = await aPerson('ada')
    await ada.signIn()
    await ada.change(EXPIRED)
    const before = server.paths.length

    const results = await Promise.all([1, 2, 3, 4].map(() => ada.cli('runs')))

    expect(results.map(({ status }) => status)).toEqual([0, 0, 0, 0])
    expect(server.paths.slice(before).filter((path) => path === '/token')).toHaveLength(1)
    await ada.change(EXPIRED)
    expect((await ada.cli('runs')).status).toBe(0)
  })

  test('cannot be renewed after a refresh token was used twice (control)', async () => {
    const ada = await aPerson('ada')
    await ada.signIn()
    const { refreshToken = '' } = await ada.saved()
    expect((await server.withRefreshToken(refreshToken, 'use')).status).toBe(200)
    expect(await server.withRefreshToken(refreshToken, 'use')).toEqual({
      status: 400,
      error: 'invalid_grant',
    })
  })

  test('of a sign-in that has ended gives the command to sign in again', async () => {
    const ada = await aPerson('ada')
    await ada.signIn()
    await server.withRefreshToken((await ada.saved()).refreshToken ?? '', 'revoke')
    await ada.change(EXPIRED)

    const { status, stderr } = await ada.cli('runs')

    expect(status).toBe(4)
    expect(stderr).toContain(`Your sign-in at ${service.url} has ended`)
    expect(stderr).toContain(`Sign in again: agentweaver login --url ${service.url}`)
    expect((await ada.signIn()).status).toBe(0)
    expect((await ada.cli('runs')).status).toBe(0)
  })

  test('without a refresh token gives the command to sign in again when it expires', async () => {
    const ada = await aPerson('ada')
    await ada.signIn()
    const { client, accessToken } = await ada.saved()
    await writeFile(ada.file, JSON.stringify({ client, accessToken, ...EXPIRED }), { mode: 0o600 })
    const { status, stderr } = await ada.cli('runs')
    expect([status, stderr]).toEqual([4, expect.stringContaining('gave no refresh token')])
  })
})

describe('logout', () => {
  test('deletes the tokens and revokes the refresh token', async () => {
    const ada = await aPerson('ada')
    await ada.signIn()
    const { refreshToken = '' } = await ada.saved()

    const first = await ada.cli('logout', '--url', service.url, '--json')
    const second = await ada.cli('logout', '--url', service.url)

    expect(JSON.parse(first.stdout)).toEqual({ url: service.url, removed: true, revoked: true })
    expect(second.stdout).toContain('There is no login')
    await expect(stat(ada.file)).rejects.toThrow('ENOENT')
    expect(await server.withRefreshToken(refreshToken, 'use')).toEqual({
      status: 400,
      error: 'invalid_grant',
    })
    expect((await ada.cli('runs')).status).toBe(4)
  })

  test('deletes the tokens although the issuer cannot be reached, and says so', async () => {
    const ada = await aPerson('ada')
    await ada.signIn()
    const { client } = await ada.saved()
    await ada.change({ client: { ...client, issuer: 'http://127.0.0.1:1' } })
    const { status, stdout } = await ada.cli('logout', '--url', service.url)
    expect([status, stdout]).toEqual([0, expect.stringContaining('were not revoked')])
    await expect(stat(ada.file)).rejects.toThrow('ENOENT')
  })
})

describe('a service', () => {
  test('without sign-in gets an API key, and --device is refused with the reason', async () => {
    await using fake = await startFakeService()
    const ada = await aPerson('ada', fake.url)
    const device = await ada.cli('login', '--url', fake.url, '--device')
    const nothing = await ada.cli('login', '--url', fake.url)
    expect([device.status, device.stderr]).toEqual([6, expect.stringContaining('accepts API keys only')])
    expect([nothing.status, nothing.stderr]).toEqual([2, expect.stringContaining('has no other sign-in')])
    expect(fake.requests.map(({ path }) => path)).toEqual(['/api/sign-in', '/api/sign-in'])
  })

  test('that forbids device codes is obeyed', async () => {
    await using fake = await startFakeService()
    fake.answer = ({ path }) =>
      path === '/api/sign-in' ? { body: { oidc: clientAt(server.issuer) } } : undefined
    const ada = await aPerson('ada', fake.url)
    const { status, stderr } = await ada.cli('login', '--url', fake.url, '--device')
    expect([status, stderr]).toEqual([
      6,
      expect.stringContaining('does not allow sign-in with a device code'),
    ])
  })

  test.for([
    ['http://login.example.com', 2, 'only over TLS'],
    ['http://127.0.0.1:1', 5, 'cannot be used'],
  ] as const)('that names the issuer %s is refused', async ([issuer, expected, words]) => {
    await using fake = await startFakeService()
    fake.answer = ({ path }) => (path === '/api/sign-in' ? { body: { oidc: clientAt(issuer) } } : undefined)
    const ada = await aPerson('ada', fake.url)
    const { status, stderr } = await ada.cli('login', '--url', fake.url)
    expect([status, stderr]).toEqual([expected, expect.stringContaining(words)])
  })

  test('that names an issuer with another name in its document is refused', async () => {
    await using fake = await startFakeService()
    const issuer = server.issuer.replace('127.0.0.1', 'localhost')
    fake.answer = ({ path }) => (path === '/api/sign-in' ? { body: { oidc: clientAt(issuer) } } : undefined)
    const ada = await aPerson('ada', fake.url)
    const before = server.paths.length
    const { status, stderr } = await ada.cli('login', '--url', fake.url)
    expect(status).not.toBe(0)
    expect(stderr).toContain(`The issuer ${issuer} cannot be used`)
    expect(server.paths.slice(before)).toEqual(['/.well-known/openid-configuration'])
  })

  const clientAt = (issuer: string) => ({
    issuer,
    clientId: CLI_CLIENT,
    scopes: ['openid'],
    deviceCode: false,
  })
})

test('no output and no log contains a token or a code', async () => {
  const ada = await aPerson('ada')
  let code = ''
  await ada.login(async (text) => {
    const { url } = await ada.browser.open(pageOf(text))
    code = url.searchParams.get('code') ?? ''
  })
  const first = await ada.saved()
  await ada.change(EXPIRED)
  await ada.cli('runs')
  await ada.cli('config')
  const second = await ada.saved()
  await ada.cli('whoami', '--json')
  await server.withRefreshToken(second.refreshToken ?? '', 'revoke')
  await ada.change(EXPIRED)
  await ada.cli('runs')
  await ada.cli('logout', '--url', service.url)

  const secrets = [first, second].flatMap(({ accessToken, refreshToken }) => [accessToken, refreshToken])
  const all = ada.said() + service.log()
  expect(code).not.toBe('')
  for (const secret of [code, ...secrets]) expect(all).not.toContain(secret)
})
