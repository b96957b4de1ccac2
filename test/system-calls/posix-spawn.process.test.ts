import { spawn as spawnByNode } from 'node:child_process'
import { openSync, readdirSync, readlinkSync } from 'node:fs'
import { resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, it } from 'vitest'
import { childrenOf } from '../../runtime/executors/process/process-tree.ts'
import { createSpawner, type Program } from '../../runtime/system-calls/posix-spawn.ts'

const spawn = createSpawner()
const folder = openSync('/usr', 'r')

const aShell = (script: string, given: Partial<Program> = {}): Program => ({
  file: '/bin/sh',
  args: ['-c', script, 'sh', 'first'],
  env: { PATH: '/usr/bin:/bin', NAME: 'value' },
  hasInput: false,
  folder,
  ...given,
})

async function run(program: Program, input = '') {
  const { stdin, stdout, stderr, exited } = spawn(program)
  stdin?.end(input)
  const [out, err, exit] = await Promise.all([text(stdout), text(stderr), exited])
  return { out, err, exit }
}

it('passes a program only its arguments, environment and folder', async () => {
  const { out, exit } = await run(aShell('echo "$1"; pwd; env; cat'))

  expect(out.split('\n').toSorted()).toEqual([
    '',
    '/usr',
    'NAME=value',
    'PATH=/usr/bin:/bin',
    'PWD=/usr',
    'first',
  ])
  expect(exit).toEqual({ code: 0, signal: null })
})

it('keeps both outputs apart, and reads long ones completely', async () => {
  const { out, err, exit } = await run(aShell('head -c 300000 /dev/zero; echo wrong >&2; exit 3'))

  expect([out.length, err, exit]).toEqual([300_000, 'wrong\n', { code: 3, signal: null }])
})

it('passes the input to its end', async () => {
  const { out } = await run(aShell('cat', { hasInput: true }), 'x'.repeat(200_000))

  expect(out).toHaveLength(200_000)
})

it.each(['KILL', 'TERM', 'PIPE', 'SEGV'])('reports an end by SIG%s', async (name) => {
  const { exit } = await run(aShell(`kill -${name} $$`))

  expect(exit).toEqual({ code: null, signal: `SIG${name}` })
})

/** The shell reads the file itself: it blocks signals briefly around each fork, which a child could see. */
const READ_OWN = `
  while read -r line; do case $line in SigBlk:*|SigIgn:*) echo "$line";; esac; done </proc/$$/status
  read -r _pid _name _state _parent _group session _rest </proc/$$/stat
  echo "$session"; echo $$`

it('starts a session leader with default signal handling', async () => {
  const { out } = await run(aShell(READ_OWN))

  const [blocked, ignored, session, own] = out.split('\n').map((line) => line.split(/\s/).at(-1))
  expect([blocked, ignored]).toEqual(['0000000000000000', '0000000000000000'])
  expect(session).toBe(own)
})

it("passes a program none of this process's inherited descriptors", async () => {
  const room = resolve(import.meta.dirname, '../../runtime/system-calls/posix-spawn.ts')
  const script = `
    import { text } from 'node:stream/consumers'
    import { createSpawner } from '${room}'
    const program = { file: '/bin/sh', args: ['-c', 'ls /proc/$$/fd; true'], env: { PATH: '/usr/bin:/bin' }, hasInput: false, folder: 3 }
    const { stdout } = createSpawner()(program)
    process.stdout.write(await text(stdout))`
  const kept = openSync('/', 'r')
  const stdio = ['ignore', 'pipe', 'inherit', kept, kept, kept, kept, kept] as const
  const child = spawnByNode(process.execPath, ['--input-type=module', '-e', script], { stdio: [...stdio] })

  expect((await text(child.stdout as NodeJS.ReadableStream)).split('\n').filter(Boolean)).toEqual([
    '0',
    '1',
    '2',
  ])
})

it('throws why a program cannot be started, and leaves no descriptor open', () => {
  const open = () => readdirSync('/proc/self/fd').filter((fd) => isOpen(fd)).length
  const before = open()

  for (let round = 0; round < 20; round++) {
    expect(() => spawn(aShell('', { file: '/no/such/program', hasInput: true }))).toThrow(/ENOENT/)
    expect(() => spawn(aShell('x'.repeat(3_000_000)))).toThrow(/E2BIG/)
    expect(() => spawn(aShell('echo \0rest'))).toThrow(/NUL/)
  }

  expect(open()).toBe(before)
})

const isOpen = (fd: string): boolean => {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`) !== ''
  } catch {
    return false
  }
}

it('reports the end of each of many programs that end at once', async () => {
  const ends = await Promise.all(
    Array.from({ length: 60 }, async (_, index) => (await run(aShell(`sleep 0.1; exit ${index}`))).exit.code),
  )

  expect(ends).toEqual(Array.from({ length: 60 }, (_, index) => index))
  expect(childrenOf(process.pid)).toEqual([])
})

it('reports an end whose signal was lost', async () => {
  const deaf = createSpawner()
  process.removeListener('SIGCHLD', process.listeners('SIGCHLD').at(-1) as () => void)

  const { stdout, stderr, exited } = deaf(aShell('exit 5'))
  stdout.resume()
  stderr.resume()

  expect(await exited).toEqual({ code: 5, signal: null })
})
