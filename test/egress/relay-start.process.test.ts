import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readlinkSync } from 'node:fs'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { expect, it, onTestFinished } from 'vitest'
import { COMPILE_CACHE } from '../helpers/compile-cache.ts'
import { freePort } from './replica-process.ts'

const RELAY = fileURLToPath(new URL('../../runtime/egress-relay/relay.ts', import.meta.url))

/** The relay, as the command supervisor starts it. `said` is all that it reports before it closes descriptor 3. */
function start(port: number) {
  const child = spawn(process.execPath, [RELAY, '/nowhere/socket', String(port)], {
    env: COMPILE_CACHE,
    stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  return { child, said: text(child.stdio[3] as Readable) }
}

it('reports on descriptor 3 that it listens, and keeps its first three descriptors', async () => {
  const { child, said } = start(await freePort())

  expect(await said).toBe('listening\n')
  // A closed one would get the number of a connection, and Node looks at its standard output for each connection.
  const first = [0, 1, 2].map((number) => readlinkSync(`/proc/${child.pid}/fd/${number}`))
  expect(first).toEqual(['/dev/null', '/dev/null', '/dev/null'])
})

it('reports there why it cannot listen', async () => {
  const port = await freePort()
  await start(port).said

  const { child, said } = start(port)

  expect(await said).toContain('EADDRINUSE')
  expect((await once(child, 'exit'))[0]).toBe(1)
})
