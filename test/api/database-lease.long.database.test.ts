import { type AddressInfo, connect, createServer } from 'node:net'
import { expect, test } from 'vitest'
import { createDatabase, requestPostgres } from '../helpers/postgres.ts'
import { until } from '../helpers/until.ts'
import { makeStateDir, startService } from './service-process.ts'

const offer = await requestPostgres()
const serverUrl = 'url' in offer ? offer.url : ''

async function aFreePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

const isOpen = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => resolve(true))
    socket.once('error', () => resolve(false))
    socket.once('close', () => socket.destroy())
  })

test.skipIf(!serverUrl)(
  'a second service on one database never listens, and stops with an explanation',
  { timeout: 120_000 },
  async () => {
    const DATABASE_URL = await createDatabase(serverUrl)
    const first = startService({ DATABASE_URL, AGENTWEAVER_STATE_DIR: await makeStateDir() })
    await first.ready
    const port = await aFreePort()
    const second = startService({
      DATABASE_URL,
      AGENTWEAVER_STATE_DIR: await makeStateDir(),
      AGENTWEAVER_PORT: String(port),
      AGENTWEAVER_LOG_LEVEL: 'info',
    })
    let hasEnded = false
    void second.exited.then(() => {
      hasEnded = true
    })

    await until('it waits', () => second.stderr().includes('waiting for the database'), 60_000)
    const wasOpen: boolean[] = []
    await until(
      'it gave up',
      async () => {
        wasOpen.push(await isOpen(port))
        return hasEnded
      },
      60_000,
    )

    expect(wasOpen).not.toContain(true)
    expect(await second.exited).toBe(1)
    expect(second.stderr()).toContain('Another service uses this database')
    expect(second.stdout()).toBe('')
  },
)
