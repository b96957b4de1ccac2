import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { Socket } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import type { RunnerRole, RunnerToHost } from '../../contracts/runner.ts'
import { awaitRunners } from '../../runtime/agent-host/toolbox/await-runners.ts'
import { createFrameSender } from '../../runtime/kit/frame-sender.ts'

const OWN = process.getuid?.() ?? 0

async function connect(name: string): Promise<Socket> {
  for (;;) {
    const socket = new Socket().connect(`\0${name}`)
    socket.on('error', () => undefined)
    onTestFinished(() => void socket.destroy())
    const outcome = await Promise.race([
      once(socket, 'connect').then(
        () => 'ok',
        () => 'refused',
      ),
      once(socket, 'close').then(() => 'refused'),
    ])
    if (outcome === 'ok') return socket
    await new Promise((resolve) => setImmediate(resolve))
  }
}

async function aRunner(name: string, role: RunnerRole): Promise<Socket> {
  const socket = await connect(name)
  const hello: RunnerToHost = {
    type: 'hello',
    role,
    isolation: {
      backend: 'kubernetes-sandbox-claim',
      isRealIsolation: true,
      enforcesEgress: true,
      reason: role,
    },
    pathEngine: 'openat2',
  }
  await createFrameSender<RunnerToHost>(socket)(hello)
  return socket
}

const aName = () => `agentweaver-test-${randomUUID()}`
const refusedAt = (name: string) =>
  new Promise((resolve) =>
    new Socket()
      .connect(`\0${name}`)
      .on('connect', () => resolve('connected'))
      .on('error', (error) => resolve((error as NodeJS.ErrnoException).code)),
  )

it('takes one runner of each kind, then closes the door for good', async () => {
  const name = aName()
  const waiting = awaitRunners({ name, user: OWN })

  await Promise.all([aRunner(name, 'offline'), aRunner(name, 'online')])
  const link = await waiting

  expect(link.isolation.reason).toBe('offline')
  expect(await refusedAt(name)).toBe('ECONNREFUSED')
  await link.close()
})

it('is over when either runner goes', async () => {
  const name = aName()
  const waiting = awaitRunners({ name, user: OWN })
  const [, online] = await Promise.all([aRunner(name, 'offline'), aRunner(name, 'online')])
  const link = await waiting

  online.destroy()

  expect(await link.closed).toMatch(/^online: /)
})

it.each([
  ['offline', 'offline'],
  ['online', 'online'],
  ['offline', 'per-command'],
] as const)('refuses a pod whose runners are %s and %s', async (first, second) => {
  const name = aName()
  const waiting = awaitRunners({ name, user: OWN })
  waiting.catch(() => undefined)

  await Promise.all([aRunner(name, first), aRunner(name, second)])

  await expect(waiting).rejects.toThrow(/one offline and one online runner/)
})

it('refuses whoever connects as another user than the toolbox’s, and everybody after', async () => {
  const name = aName()
  const waiting = awaitRunners({ name, user: OWN + 1 })
  waiting.catch(() => undefined)

  await connect(name)

  await expect(waiting).rejects.toThrow(`user ${OWN} connected in the place of a runner`)
  expect(await refusedAt(name)).toBe('ECONNREFUSED')
})
