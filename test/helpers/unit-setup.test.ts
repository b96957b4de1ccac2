import { exec, execFileSync, execSync, fork, spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { get } from 'node:http'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'

it.each<[string, () => unknown]>([
  ['spawn', () => spawn('true')],
  ['exec', () => exec('true')],
  ['fork', () => fork('x.js')],
  ['spawnSync', () => spawnSync('true')],
  ['execSync', () => execSync('true')],
  ['execFileSync', () => execFileSync('true')],
])('stops a unit test that starts a process with %s', (_, start) => {
  expect(start).toThrow('A unit test starts a process. Name its file *.process.test.ts')
})

it.each<[string, () => unknown]>([
  ['a port', () => createServer().listen(0)],
  ['a port in options', () => createServer().listen({ port: 0, host: '127.0.0.1' })],
  ['a port as a string', () => createServer().listen('4711')],
])('stops a unit test that listens on %s', (_, listen) => {
  expect(listen).toThrow('A unit test listens on TCP')
})

it.each<[string, () => unknown]>([
  ['a socket', () => connect(9, '127.0.0.1')],
  ['an HTTP request', () => get('http://127.0.0.1:9')],
])('stops a unit test that connects with %s', (_, open) => {
  expect(open).toThrow('A unit test connects over TCP')
})

it('lets a unit test use a Unix socket', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'unit-setup-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const path = join(folder, 'socket')
  const server = createServer((socket) => socket.end('hello'))
  onTestFinished(() => void server.close())
  await new Promise<void>((resolve) => server.listen(path, resolve))

  const received = await new Promise<string>((resolve, reject) => {
    connect(path)
      .once('data', (data) => resolve(String(data)))
      .once('error', reject)
  })

  expect(received).toBe('hello')
})
