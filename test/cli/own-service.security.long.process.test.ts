import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, chown, mkdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { describe, expect, test } from 'vitest'
import { generateApiKey } from '../../runtime/api/http/api-key.ts'
import { createClient } from '../../runtime/client/client.ts'
import { preparePrivateFolder } from '../../runtime/state-folder/prepare-folder.ts'
import { socketPlaceOf } from '../../runtime/state-folder/socket-place.ts'
import { makeStateDir, startService } from '../api/service-process.ts'
import { eavesdrop, hasHeard } from './eavesdropper.ts'
import { RUN_ID } from './fake-service.ts'
import { aFolder, runCli } from './run-cli.ts'

const NOBODY = 65_534
const isRoot = process.getuid?.() === 0

/** A home with the state folder of a stopped service. */
async function aHome() {
  const home = await aFolder('aw-own-test-')
  const state = join(home, '.local/state/agentweaver')
  const apiKey = generateApiKey()
  await preparePrivateFolder(state)
  await writeFile(join(state, 'api-key'), `${apiKey}\n`, { mode: 0o600 })
  return { home, state, socket: join(state, 'service.sock'), apiKey }
}

/** Commands that contact a service in different ways. */
const COMMANDS = [
  ['cancel', RUN_ID],
  ['logs', '-f', RUN_ID],
  ['approve', RUN_ID, 'req-1'],
  ['doctor'],
  ['config'],
]

describe('a program on the port of a stopped service receives nothing', () => {
  test('control: the program receives a key that is sent to the port', async () => {
    const { apiKey } = await aHome()
    await using port = await eavesdrop()

    await createClient({ url: port.url, apiKey, retries: 0 }).listRuns()

    expect(hasHeard(port, apiKey)).toBe(true)
  })

  test.each(COMMANDS)('%s %s', async (...words) => {
    const { home, apiKey } = await aHome()
    await using port = await eavesdrop()
    const env = { HOME: home, AGENTWEAVER_PORT: String(port.port) }

    const { stdout, stderr } = await runCli(
      words.filter((word) => word !== undefined),
      { env, cwd: home },
    )

    expect({ connections: port.connections(), said: `${stdout}${stderr}`.includes(apiKey) }).toEqual({
      connections: 0,
      said: false,
    })
  })

  test('from run, which starts its own service', async () => {
    const { home } = await aHome()
    await using port = await eavesdrop()
    const env = { HOME: home, AGENTWEAVER_PORT: String(port.port) }

    const { status } = await runCli(['runs'], { env, cwd: home })

    expect({ status, connections: port.connections() }).toEqual({ status: 0, connections: 0 })
  })
})

type Stale = { url: string; socket: string }

describe('the service file of a stopped service names another program', () => {
  test.each<[string, (place: Stale) => unknown]>([
    ['as earlier versions wrote it', ({ url }) => ({ url, pid: process.pid })],
    ['a process of another user', ({ url, socket }) => ({ url, socket, pid: 1, startedIn: '/' })],
    ['a process that has ended', ({ url, socket }) => ({ url, socket, pid: 2 ** 22, startedIn: '/' })],
    ['a process of this user', ({ url, socket }) => ({ url, socket, pid: process.pid, startedIn: '/' })],
    ['a socket as its address', ({ socket }) => ({ url: `unix:${socket}`, socket, pid: process.pid })],
    ['unreadable content', () => 'service'],
  ])('%s', async (_what, content) => {
    const { home, state } = await aHome()
    const elsewhere = join(await aFolder('aw-elsewhere-'), 's')
    await using port = await eavesdrop()
    await using socket = await eavesdrop({ path: elsewhere })
    await writeFile(
      join(state, 'service.json'),
      JSON.stringify(content({ url: port.url, socket: elsewhere })),
      {
        mode: 0o600,
      },
    )

    const results = await Promise.all(
      [['cancel', RUN_ID], ['doctor']].map((argv) => runCli(argv, { env: { HOME: home }, cwd: home })),
    )

    expect(results[0]?.status).toBe(5)
    expect([port.connections(), socket.connections()]).toEqual([0, 0])
  })
})

describe('a replaced socket or folder', () => {
  test('control: a private socket of this user gets the key and its request is answered', async () => {
    const { home, socket, apiKey } = await aHome()
    await using listener = await eavesdrop({ path: socket })
    await chmod(socket, 0o600)

    const { status } = await runCli(['runs'], { env: { HOME: home }, cwd: home })

    expect(status).toBe(0)
    expect(hasHeard(listener, apiKey)).toBe(true)
  })

  type Scene = Awaited<ReturnType<typeof aHome>>
  const cases: [string, (scene: Scene) => Promise<unknown>, string][] = [
    ['a socket that others may use', ({ socket }) => chmod(socket, 0o660), 'others than its owner'],
    ['a folder that its group may write', ({ state }) => chmod(state, 0o770), 'others than its owner'],
    ['a folder that others may enter', ({ state }) => chmod(state, 0o711), 'others than its owner'],
    [
      'a link to a socket',
      async ({ socket }) => {
        await rename(socket, `${socket}-real`)
        await symlink(`${socket}-real`, socket)
      },
      'not a socket',
    ],
    [
      'a link to a folder',
      async ({ state }) => {
        await rename(state, `${state}-real`)
        await symlink(`${state}-real`, state)
      },
      'is a link',
    ],
    [
      'a file',
      async ({ socket }) => {
        await rm(socket)
        await writeFile(socket, '', { mode: 0o600 })
      },
      'not a socket',
    ],
    [
      'a key that others may read',
      ({ state }) => chmod(join(state, 'api-key'), 0o644),
      'others than its owner',
    ],
    [
      'a link in place of the key',
      async ({ state }) => {
        await rename(join(state, 'api-key'), join(state, 'real'))
        await symlink('real', join(state, 'api-key'))
      },
      'cannot be read (ELOOP)',
    ],
    [
      'a pipe in place of the key',
      async ({ state }) => {
        await rm(join(state, 'api-key'))
        execFileSync('mkfifo', ['-m', '600', join(state, 'api-key')])
      },
      'not a file of a service',
    ],
  ]
  const asRoot: typeof cases = [
    ['a socket of another user', ({ socket }) => chown(socket, NOBODY, NOBODY), 'belongs to another user'],
    ['a folder of another user', ({ state }) => chown(state, NOBODY, NOBODY), 'belongs to another user'],
  ]

  const isRefused = async (change: (scene: Scene) => Promise<unknown>, why: string) => {
    const scene = await aHome()
    await using listener = await eavesdrop({ path: scene.socket })
    await chmod(scene.socket, 0o600)
    await change(scene)

    const results = await Promise.all(
      [['runs'], ['doctor']].map((argv) => runCli(argv, { env: { HOME: scene.home }, cwd: scene.home })),
    )

    expect(results.map(({ status }) => status)).toEqual([6, 1])
    for (const { stdout, stderr } of results)
      expect(`${stdout}${stderr}`.replaceAll(/\s+/g, ' ')).toContain(why)
    expect(hasHeard(listener, scene.apiKey)).toBe(false)
  }

  test.each(cases)('%s is not used and gets no key', (_what, change, why) => isRefused(change, why))

  // Only root can change the owner of a file.
  test.skipIf(!isRoot).each(asRoot)('%s is not used and gets no key', (_what, change, why) =>
    isRefused(change, why),
  )
})

test('a state folder with a long path has its socket in the private runtime folder', async () => {
  const home = await aFolder('aw-long-test-')
  const runtime = join(home, 'run')
  await mkdir(runtime, { mode: 0o700 })
  const stateDir = join(home, 'x'.repeat(90), 'state')
  const env = { HOME: home, AGENTWEAVER_STATE_DIR: stateDir, XDG_RUNTIME_DIR: runtime }
  const service = startService({ ...env })
  const { socket } = await service.ready

  const { status, stderr } = await runCli(['runs'], { env, cwd: home })

  expect(socket).toMatch(new RegExp(`^${runtime}/agentweaver/[0-9a-f]{16}\\.sock$`))
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  // Proves that this socket is used: it is rejected when its folder is open to others.
  await chmod(join(runtime, 'agentweaver'), 0o777)
  expect((await runCli(['runs'], { env, cwd: home })).status).toBe(6)
})

test('the socket path is short and differs between state folders', () => {
  const long = (name: string) => `/${'x'.repeat(110)}/${name}`
  const placeOf = (stateDir: string, runtimeDir?: string) =>
    socketPlaceOf(stateDir, runtimeDir === undefined ? {} : { XDG_RUNTIME_DIR: runtimeDir }).path

  expect(placeOf('/state')).toBe('/state/service.sock')
  expect(placeOf(long('a'), '/run/user/1')).toMatch(/^\/run\/user\/1\/agentweaver\/[0-9a-f]{16}\.sock$/)
  expect(placeOf(long('a'), '/run/user/1')).not.toBe(placeOf(long('b'), '/run/user/1'))
  for (const runtimeDir of [undefined, 'relative', long('run')])
    expect(placeOf(long('a'), runtimeDir)).toMatch(/^\/tmp\/agentweaver-\d+\/[0-9a-f]{16}\.sock$/)
})

/** Tries to connect as another user. Returns `connected` or the error code. */
async function connectAs(uid: number | undefined, socket: string): Promise<string> {
  const program = `
    const socket = require('node:net').connect(${JSON.stringify(socket)})
    socket.on('connect', () => { console.log('connected'); socket.destroy() })
    socket.on('error', ({ code }) => console.log(code))`
  const child = spawn(process.execPath, ['-e', program], {
    cwd: '/',
    ...(uid === undefined ? {} : { uid, gid: uid }),
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [said] = await Promise.all([text(child.stdout), once(child, 'exit')])
  return said.trim()
}

test.runIf(isRoot)('another user of the machine cannot connect to the socket', async () => {
  const stateDir = await makeStateDir()
  const { socket } = await startService({ AGENTWEAVER_STATE_DIR: stateDir }).ready
  // Opens the parent folders, so that only the state folder protects the socket.
  await chmod(join(stateDir, '..'), 0o755)

  expect(await connectAs(undefined, socket)).toBe('connected')
  expect(await connectAs(NOBODY, socket)).toBe('EACCES')
  // The folder and the socket each protect on their own.
  await chmod(stateDir, 0o755)
  expect(await connectAs(NOBODY, socket)).toBe('EACCES')
  await chmod(socket, 0o666)
  expect(await connectAs(NOBODY, socket)).toBe('connected')
})

test('a service replaces the socket of a crashed service', async () => {
  const stateDir = await makeStateDir()
  const first = startService({ AGENTWEAVER_STATE_DIR: stateDir })
  const { socket } = await first.ready
  first.child.kill('SIGKILL')
  await first.exited
  const env = { AGENTWEAVER_STATE_DIR: stateDir }
  expect((await runCli(['cancel', RUN_ID], { env })).status).toBe(5)

  const { apiKeyFile } = await startService(env).ready

  expect((await runCli(['cancel', RUN_ID], { env })).status).toBe(3)
  const apiKey = (await readFile(apiKeyFile, 'utf8')).trim()
  expect((await createClient({ socketPath: socket, apiKey }).listRuns()).items).toEqual([])
})
