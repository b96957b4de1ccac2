import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { expect, it, onTestFinished } from 'vitest'
import { peerUserOf } from '../../runtime/system-calls/peer-user.ts'

const run = promisify(execFile)
const ROOM = resolve(import.meta.dirname, '../../runtime')

/** Runs a script in a new process, because these calls cannot be undone. */
async function inProcess(script: string): Promise<string> {
  const imports = `
    import { execFileSync, spawn, spawnSync } from 'node:child_process'
    import net from 'node:net'
    import { readFileSync } from 'node:fs'
    import { adoptOrphans, createOomPreference, forbidTracing, groupOf, installSyscallFilter, limitResources, reap } from '${ROOM}/system-calls/process-control.ts'
    import { seccompProgram } from '${ROOM}/executors/seccomp/filter.ts'
    import { childrenOf, isDead } from '${ROOM}/executors/process/process-tree.ts'
    const attempt = (options) => new Promise((done) => net.connect(options).on('connect', () => done('connected')).on('error', (e) => done(e.code)))
  `
  const node = [process.execPath, '--input-type=module', '-e', imports + script]
  // Root can read everything, so the process drops its capabilities.
  const withoutCapabilities = ['setpriv', '--bounding-set=-all', '--inh-caps=-all', '--', ...node]
  const [file = '', ...args] = process.getuid?.() === 0 ? withoutCapabilities : node
  const { stdout } = await run(file, args, { timeout: 150_000 })
  return stdout.trim()
}

it('allows only Unix sockets, for itself and everything that it starts', async () => {
  const said = await inProcess(`
    const server = net.createServer().listen(0, '127.0.0.1')
    await new Promise((done) => server.on('listening', done))
    const { port } = server.address()
    const before = await attempt({ port, host: '127.0.0.1' })
    installSyscallFilter(seccompProgram(process.arch, { unixSocketsOnly: true, keepsRing: true }))
    const after = await attempt({ port, host: '127.0.0.1' })
    const abstract = net.createServer().listen('\\0agentweaver-test-' + process.pid)
    await new Promise((done) => abstract.on('listening', done))
    const unix = await attempt({ path: '\\0agentweaver-test-' + process.pid })
    const child = execFileSync('/bin/bash', ['-c', '(exec 3<>/dev/tcp/127.0.0.1/' + port + ') 2>&1 || true']).toString()
    console.log(before, after, unix, /not supported/.test(child))
    process.exit()
  `)

  expect(said).toBe('connected EAFNOSUPPORT connected true')
})

it('cannot be traced by another process of its user after forbidTracing', async () => {
  const said = await inProcess(`
    const look = () => {
      try { return String(execFileSync('head', ['-c1', '/proc/' + process.pid + '/environ'], { stdio: 'pipe' }).length) }
      catch { return 'refused' }
    }
    const before = look()
    forbidTracing()
    console.log(before, look(), readFileSync('/proc/self/status', 'utf8').length > 0)
  `)

  expect(said).toBe('1 refused true')
})

it('adopts orphans of its descendants, and frees their ids when they are reaped', async () => {
  const said = await inProcess(`
    adoptOrphans()
    const child = spawn('/bin/sh', ['-c', 'setsid sleep 0.2 & exit 0'], { stdio: 'ignore' })
    await new Promise((done) => child.on('exit', done))
    const [orphan] = childrenOf(process.pid)
    while (!isDead(orphan)) await new Promise((done) => setImmediate(done))
    const asZombie = childrenOf(process.pid).includes(orphan)
    reap(orphan)
    console.log(asZombie, childrenOf(process.pid).length)
  `)

  expect(said).toBe('true 0')
})

it('limits itself and everything it starts, and never raises a limit', async () => {
  const said = await inProcess(`
    const limits = () => execFileSync('/bin/sh', ['-c', 'ulimit -c; ulimit -n; ulimit -Hn; ulimit -f; ulimit -d']).toString().trim().split('\\n')
    limitResources({ coreBytes: 0, openFiles: 512, fileBytes: 1024 ** 3, dataBytes: 4 * 1024 ** 3 })
    const first = limits()
    limitResources({ coreBytes: 1024, openFiles: 4096, fileBytes: 2 * 1024 ** 3, dataBytes: 8 * 1024 ** 3 })
    console.log(...first, '|', ...limits())
  `)

  const bounded = ['0', '512', '512', String(1024 ** 3 / 512), String((4 * 1024 ** 3) / 1024)].join(' ')
  expect(said).toBe(`${bounded} | ${bounded}`)
})

it('starts programs that the kernel kills first, and is not one itself', async () => {
  const said = await inProcess(`
    const asVictim = createOomPreference()
    forbidTracing()
    const score = () => readFileSync('/proc/self/oom_score_adj', 'utf8').trim()
    const child = ['/bin/sh', ['-c', '(cat /proc/self/oom_score_adj)']]
    console.log(score(), asVictim(() => String(execFileSync(...child)).trim()), score(), String(execFileSync(...child)).trim())
  `)

  expect(said).toBe('0 500 0 0')
})

it('cannot be signalled by its children if a filter spares it, nor can all processes at once', async () => {
  const said = await inProcess(`
    const attempts = ['kill -0 $PPID', 'kill -0 -' + groupOf(process.pid), 'kill -0 -1', 'kill -KILL $$']
    const tried = () => attempts.map((attempt) => {
      const { status, signal } = spawnSync('/bin/sh', ['-c', attempt], { detached: true })
      return signal ?? status
    })
    const before = tried()
    const spared = { processes: [process.pid], groups: [groupOf(process.pid)] }
    installSyscallFilter(seccompProgram(process.arch, { keepsRing: true, spared }))
    console.log(...before, '|', ...tried())
  `)

  expect(said).toBe('0 0 0 SIGKILL | 1 1 1 SIGKILL')
})

it('cannot name a file of openat2 that was created without a name, under the filter of a pod', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'aw-unnamed-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))

  const said = await inProcess(`
    const { constants, existsSync } = await import('node:fs')
    const { default: koffi } = await import('${import.meta.resolve('koffi')}')
    const { syscallNumber } = await import('${ROOM}/executors/seccomp/syscalls.ts')
    const libc = koffi.load(null)
    const openat2 = libc.func('long syscall(long, int, str, void *, size_t)')
    const linkat = libc.func('long syscall(long, int, str, int, str, int)')
    const [here, follow] = [-100, 0x400]
    const create = (name) => {
      const flags = 0o20000000 | constants.O_DIRECTORY | constants.O_RDWR
      const file = openat2(syscallNumber(process.arch, 'openat2'), here, '${folder}', new BigUint64Array([BigInt(flags), 0o600n, 0n]), 24)
      const call = syscallNumber(process.arch, 'linkat')
      linkat(call, here, '/proc/self/fd/' + file, here, '${folder}/' + name, follow)
      return [Number(file) > 0, existsSync('${folder}/' + name)]
    }
    const before = create('before')
    installSyscallFilter(seccompProgram(process.arch, { keepsRing: true, permitsOpenat2: true }))
    console.log(...before, '|', ...create('after'))
  `)

  expect(said).toBe('true true | true false')
})

it('reports the user at the other end of a socket', async () => {
  const server = createServer()
  server.listen(`\0agentweaver-peer-${process.pid}`)
  await once(server, 'listening')
  const arriving = once(server, 'connection') as Promise<[Socket]>
  const client = new Socket().connect(`\0agentweaver-peer-${process.pid}`)
  await once(client, 'connect')
  const [socket] = await arriving

  expect([peerUserOf(socket), peerUserOf(client)]).toEqual([process.getuid?.(), process.getuid?.()])
  client.destroy()
  server.close()
  expect(() => peerUserOf(client)).toThrow('not connected')
})
