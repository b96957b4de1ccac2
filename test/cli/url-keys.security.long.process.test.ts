import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, readdir, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { generateApiKey } from '../../runtime/api/http/api-key.ts'
import { preparePrivateFolder } from '../../runtime/state-folder/prepare-folder.ts'
import { startHttpsFake } from '../fakes/https-fake.ts'
import { createTestAuthority } from '../fakes/test-authority.ts'
import { type Eavesdropper, eavesdrop, hasHeard } from './eavesdropper.ts'
import { FAKE_KEY, startFakeService } from './fake-service.ts'
import { aFolder, runCli, startAtTerminal } from './run-cli.ts'

const KEY = generateApiKey()
const LIST = ['runs', '--json']

/** A home whose stopped service has a key too. */
async function aHome() {
  const home = await aFolder('aw-keys-test-')
  const state = join(home, '.local/state/agentweaver')
  const ownKey = generateApiKey()
  await preparePrivateFolder(state)
  await writeFile(join(state, 'api-key'), ownKey, { mode: 0o600 })
  return { home, ownKey, logins: join(home, '.config/agentweaver/logins') }
}

/** A proxy that redirects every tunnel to a port of this machine and records the traffic. */
async function tunnel(port: number) {
  let heard = ''
  const server = createServer((request, response) => {
    heard += JSON.stringify(request.headers)
    response.writeHead(502).end()
  })
  server.on('connect', (request, near) => {
    heard += `CONNECT ${request.url} ${JSON.stringify(request.headers)}`
    const far = connect(port, '127.0.0.1', () => near.write('HTTP/1.1 200 OK\r\n\r\n'))
    near.on('data', (chunk: Buffer) => {
      heard += chunk.toString('latin1')
    })
    near.pipe(far).pipe(near)
    near.on('error', () => far.destroy())
    far.on('error', () => near.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, heard: () => heard }
}

type Result = Awaited<ReturnType<typeof runCli>>

/** Asserts that no key was received, and that none was printed. */
function expectSilence(place: Eavesdropper, { stdout, stderr }: Result, ...keys: string[]): void {
  for (const key of keys) {
    expect(hasHeard(place, key)).toBe(false)
    expect(`${stdout}${stderr}`).not.toContain(key)
  }
}

describe('a key is sent only to its URL', () => {
  test('control: AGENTWEAVER_URL and AGENTWEAVER_API_KEY together are used', async () => {
    const { home } = await aHome()
    await using service = await eavesdrop()
    const env = { HOME: home, AGENTWEAVER_URL: service.url, AGENTWEAVER_API_KEY: KEY }

    const { status } = await runCli(LIST, { env, cwd: home })

    expect(status).toBe(0)
    expect(hasHeard(service, KEY)).toBe(true)
  })

  test("the key of the user's own service is sent to no URL", async () => {
    const { home, ownKey } = await aHome()
    await using port = await eavesdrop()

    const result = await runCli(LIST, { env: { HOME: home, AGENTWEAVER_URL: port.url }, cwd: home })

    expect(result.status).toBe(4)
    expect(result.stderr).toContain(`agentweaver login --url ${port.url}`)
    expect(port.connections()).toBe(0)
    expectSilence(port, result, ownKey)
  })

  test('the key for one URL is sent to no other URL', async () => {
    const { home, ownKey } = await aHome()
    await using given = await eavesdrop()
    await using other = await eavesdrop()
    const env = { HOME: home, AGENTWEAVER_URL: given.url, AGENTWEAVER_API_KEY: KEY }

    const result = await runCli([...LIST, '--url', other.url], { env, cwd: home })

    expect(result.status).toBe(4)
    expect([given.connections(), other.connections()]).toEqual([0, 0])
    expectSilence(other, result, KEY, ownKey)
  })

  test('a key without a URL is not sent, and the command says why', async () => {
    const { home } = await aHome()
    await using port = await eavesdrop()
    const env = { HOME: home, AGENTWEAVER_API_KEY: KEY, AGENTWEAVER_PORT: String(port.port) }

    const own = await runCli(LIST, { env, cwd: home })
    const named = await runCli([...LIST, '--url', port.url], { env, cwd: home })

    expect([own.status, named.status]).toEqual([2, 4])
    expect(own.stderr).toContain('is set without AGENTWEAVER_URL')
    expect(named.stderr).toContain('AGENTWEAVER_API_KEY is not sent there')
    expect(port.connections()).toBe(0)
  })

  test('a key cannot be an argument, because other users of the machine could read it', async () => {
    const { status, stderr } = await runCli(['runs', '--api-key', KEY])

    expect({ status, isKnown: !stderr.includes("unknown option '--api-key'") }).toEqual({
      status: 2,
      isKnown: false,
    })
  })

  test.each([
    ['http://api.example', 'only over TLS'],
    ['http://192.0.2.1:8080', 'only over TLS'],
    ['http://127.0.0.1.example.org', 'only over TLS'],
    ['http://[2001:db8::1]', 'only over TLS'],
    ['http://0.0.0.0:8080', 'only over TLS'],
    ['http://127.0.0.1@api.example/', 'a user or a password'],
    ['https://ada:hunter2@api.example', 'a user or a password'],
    ['https://api.example/path', 'has a path'],
    ['https://api.example/?key=hunter2', 'has a path'],
    ['ftp://api.example', 'not an http'],
    ['file:///etc/passwd', 'not an http'],
    ['api.example', 'not an http'],
  ])('rejects %s: %s', async (url, why) => {
    const env = { AGENTWEAVER_URL: url, AGENTWEAVER_API_KEY: KEY }

    const list = await runCli(LIST, { env })
    const login = await runCli(['login', '--url', url], { input: KEY })

    for (const { status, stderr } of [list, login]) {
      expect({ status, stderr }).toEqual({ status: 2, stderr: expect.stringContaining(why) })
      expect(stderr).not.toMatch(/hunter2|awk_/)
    }
  })

  test('sends no key if certificate verification is turned off', async () => {
    const env = {
      AGENTWEAVER_URL: 'https://api.example',
      AGENTWEAVER_API_KEY: KEY,
      NODE_TLS_REJECT_UNAUTHORIZED: '0',
    }

    const { status, stderr } = await runCli(LIST, { env })

    expect({ status, stderr }).toEqual({
      status: 2,
      stderr: expect.stringContaining('NODE_TLS_REJECT_UNAUTHORIZED=0'),
    })
  })

  test.each([301, 302, 303, 307, 308])('does not follow a redirect with status %i', async (status) => {
    await using target = await eavesdrop()
    const server = createServer((_request, response) => {
      response.writeHead(status, { location: `${target.url}/api/runs` }).end()
    }).listen(0, '127.0.0.1')
    onTestFinished(() => void server.close())
    await once(server, 'listening')
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const env = { AGENTWEAVER_URL: url, AGENTWEAVER_API_KEY: KEY }

    const results = [await runCli(LIST, { env }), await runCli(['cancel', `run_${'0'.repeat(32)}`], { env })]

    for (const result of results) {
      expect(result.status).toBe(6)
      expect(result.stderr).toContain(`redirects to ${target.url}`)
    }
    expect(target.connections()).toBe(0)
  })
})

describe('a proxy in the environment', () => {
  test('sees no request to this machine', async () => {
    await using service = await startFakeService()
    const proxy = await tunnel(Number(new URL(service.url).port))
    const names = ['HTTP_PROXY', 'http_proxy', 'HTTPS_PROXY', 'https_proxy', 'ALL_PROXY', 'all_proxy']
    const env = { ...Object.fromEntries(names.map((name) => [name, proxy.url])), NODE_USE_ENV_PROXY: '1' }
    const login = { AGENTWEAVER_URL: service.url, AGENTWEAVER_API_KEY: FAKE_KEY }

    const { status } = await runCli(LIST, { env: { ...env, ...login } })

    expect({ status, heard: proxy.heard() }).toEqual({ status: 0, heard: '' })
    // Control: plain `fetch` with the same settings shows the key to the proxy.
    const headers = JSON.stringify({ authorization: `Bearer ${FAKE_KEY}` })
    const program = `await (await fetch('${service.url}/api/runs', { headers: ${headers} })).text()`
    const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
      env: { PATH: process.env['PATH'], ...env },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    const [said, [code]] = await Promise.all([text(child.stderr), once(child, 'exit')])
    expect({ said, code }).toEqual({ said: '', code: 0 })
    expect(proxy.heard()).toContain(FAKE_KEY)
  })

  describe('for another machine', () => {
    const authority = createTestAuthority()
    let service: Awaited<ReturnType<typeof startHttpsFake>>
    let impostor: Awaited<ReturnType<typeof startHttpsFake>>
    beforeAll(async () => {
      const respond = async () => ({ status: 200, body: { items: [] } })
      service = await startHttpsFake({ tls: authority.serverFor('api.example'), respond })
      impostor = await startHttpsFake({ tls: createTestAuthority().serverFor('api.example'), respond })
    })
    afterAll(() => Promise.all([service.close(), impostor.close()]))

    async function listThrough(proxyUrl: string) {
      const folder = await aFolder('aw-authority-')
      const file = join(folder, 'authority.pem')
      await writeFile(file, authority.certificate)
      const env = {
        NODE_USE_ENV_PROXY: '1',
        HTTPS_PROXY: proxyUrl,
        NODE_EXTRA_CA_CERTS: file,
        AGENTWEAVER_URL: 'https://api.example',
        AGENTWEAVER_API_KEY: KEY,
      }
      return runCli(LIST, { env })
    }

    test('sees only a tunnel, and the server at its end gets the key', async () => {
      const proxy = await tunnel(service.port)

      const { status } = await listThrough(proxy.url)

      expect(status).toBe(0)
      expect(proxy.heard()).toContain('CONNECT api.example:443')
      expect(proxy.heard()).not.toMatch(/authorization|awk_/i)
      expect(service.requests.at(-1)?.headers.authorization).toBe(`Bearer ${KEY}`)
    })

    test('cannot replace the server', async () => {
      const { status } = await listThrough((await tunnel(impostor.port)).url)

      expect(status).toBe(5)
      expect(impostor.requests).toEqual([])
    })
  })
})

describe('login', () => {
  test('saves an accepted key for this user only, and uses it for that URL only', async () => {
    const { home, logins } = await aHome()
    await using service = await eavesdrop()
    await using other = await eavesdrop()
    const settings = { env: { HOME: home }, cwd: home }

    const login = await runCli(['login', '--url', `${service.url}/`, '--json'], {
      ...settings,
      input: `${KEY}\n`,
    })
    const listed = await runCli([...LIST, '--url', service.url], settings)
    const elsewhere = await runCli([...LIST, '--url', other.url], settings)

    const { url, file } = JSON.parse(login.stdout)
    expect({ url, folder: join(file, '..') }).toEqual({ url: service.url, folder: logins })
    expect([(await stat(file)).mode & 0o777, (await stat(logins)).mode & 0o777]).toEqual([0o600, 0o700])
    expect([login.status, listed.status, elsewhere.status]).toEqual([0, 0, 4])
    expect(hasHeard(service, KEY)).toBe(true)
    expect(other.connections()).toBe(0)
    expect(`${login.stdout}${login.stderr}`).not.toContain(KEY)
  })

  test('does not save a rejected or malformed key', async () => {
    const { home, logins } = await aHome()
    await using service = await startFakeService()
    const settings = { env: { HOME: home }, cwd: home }
    const login = ['login', '--url', service.url]

    const refused = await runCli(login, { ...settings, input: KEY })
    const twoLines = await runCli(login, { ...settings, input: `${FAKE_KEY}\nsecond` })
    const nothing = await runCli(login, { ...settings, input: '' })
    const unreachable = await runCli(['login', '--url', 'http://127.0.0.1:1'], { ...settings, input: KEY })

    expect([refused, twoLines, nothing, unreachable].map(({ status }) => status)).toEqual([4, 2, 2, 5])
    await expect(readdir(logins)).rejects.toThrow('ENOENT')
  })

  test('asks for the key at the terminal without echo', async () => {
    const { home, logins } = await aHome()
    await using service = await startFakeService()
    await using terminal = startAtTerminal(['login', '--url', service.url], { env: { HOME: home } })

    await terminal.shows('API key for')
    terminal.type(`${FAKE_KEY}\r`)

    expect(await terminal.exited).toBe(0)
    expect(terminal.screen()).not.toContain(FAKE_KEY)
    expect(await readdir(logins)).toEqual([encodeURIComponent(service.url)])
  })

  test('ends after Ctrl-C and saves nothing', async () => {
    const { home, logins } = await aHome()
    await using service = await startFakeService()
    await using terminal = startAtTerminal(['login', '--url', service.url], { env: { HOME: home } })

    await terminal.shows('API key for')
    terminal.type('\u0003')

    expect(await terminal.exited).toBe(130)
    await expect(readdir(logins)).rejects.toThrow('ENOENT')
  })

  test('logout deletes the key', async () => {
    const { home, logins } = await aHome()
    await using service = await startFakeService()
    const settings = { env: { HOME: home }, cwd: home }
    await runCli(['login', '--url', service.url], { ...settings, input: FAKE_KEY })

    const first = await runCli(['logout', '--url', service.url, '--json'], settings)
    const second = await runCli(['logout', '--url', service.url, '--json'], settings)

    expect(JSON.parse(first.stdout)).toEqual({ url: service.url, removed: true })
    expect(JSON.parse(second.stdout)).toEqual({ url: service.url, removed: false })
    expect(await readdir(logins)).toEqual([])
    expect((await runCli([...LIST, '--url', service.url], settings)).status).toBe(4)
  })

  test('does not use a saved key that others can read', async () => {
    const { home, logins } = await aHome()
    await using service = await eavesdrop()
    const settings = { env: { HOME: home }, cwd: home }
    await runCli(['login', '--url', service.url], { ...settings, input: KEY })
    const before = service.connections()

    await chmod(join(logins, encodeURIComponent(service.url)), 0o644)
    const result = await runCli([...LIST, '--url', service.url], settings)

    expect(result.status).toBe(6)
    expect(result.stderr).toContain('can be used by others')
    expect(service.connections()).toBe(before)
  })
})
