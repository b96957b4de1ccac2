import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { Socket } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { WORKSPACE_MOUNT } from '../../contracts/names.ts'
import { HostToRunner, type RunnerRole, type RunnerToHost } from '../../contracts/runner.ts'
import { awaitRunners } from '../../runtime/agent-host/toolbox/await-runners.ts'
import { createFrameSender } from '../../runtime/kit/frame-sender.ts'
import { decodeFrames } from '../../runtime/kit/frames.ts'
import { until } from '../helpers/until.ts'

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

/** Accepts `open` for one folder and rejects every other folder. */
async function answerOpens(runner: Socket, asked: string[], only: string = WORKSPACE_MOUNT): Promise<void> {
  const send = createFrameSender<RunnerToHost>(runner)
  for await (const { header } of decodeFrames(HostToRunner, runner)) {
    if (header.type !== 'open') continue
    const { id, root } = header
    asked.push(root)
    const error = { ok: false, code: 'denied', message: `not ${root}` } as const
    await send({ type: 'opened', id, ...(root !== only && { error }) })
  }
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

it('opens the workspace of the pod before there is a run, and asks the runners for any other', async () => {
  const name = aName()
  const waiting = awaitRunners({ name, user: OWN })
  const runners = await Promise.all([aRunner(name, 'offline'), aRunner(name, 'online')])
  const asked: string[] = []
  for (const runner of runners) answerOpens(runner, asked).catch(() => undefined)

  const link = await waiting
  await until('both are asked', () => asked.length === 2)
  await link.open(WORKSPACE_MOUNT)
  const before = [...asked]
  const refused = link.open('/etc')

  await expect(refused).rejects.toMatchObject({ code: 'workspace_invalid', message: 'not /etc' })
  expect(before).toEqual([WORKSPACE_MOUNT, WORKSPACE_MOUNT])
  expect(asked.slice(2)).toEqual(['/etc', '/etc'])
  await link.close()
})

it('rejects open with the error of the runners if they cannot open the workspace', async () => {
  const name = aName()
  const waiting = awaitRunners({ name, user: OWN })
  const runners = await Promise.all([aRunner(name, 'offline'), aRunner(name, 'online')])
  for (const runner of runners) answerOpens(runner, [], 'nowhere').catch(() => undefined)

  const link = await waiting

  await expect(link.open(WORKSPACE_MOUNT)).rejects.toMatchObject({
    code: 'workspace_invalid',
    message: `not ${WORKSPACE_MOUNT}`,
  })
  await link.close()
})

it('ends when either runner disconnects', async () => {
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

it('rejects a connection from a user other than the toolbox user, and every later connection', async () => {
  const name = aName()
  const waiting = awaitRunners({ name, user: OWN + 1 })
  waiting.catch(() => undefined)

  await connect(name)

  await expect(waiting).rejects.toThrow(`a process of user ${OWN} connected to the runner socket`)
  expect(await refusedAt(name)).toBe('ECONNREFUSED')
})
