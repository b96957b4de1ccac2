import { createHash } from 'node:crypto'
import { existsSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { AgentCard, Role, TaskState } from '@a2a-js/sdk'
import { RestTransportFactory } from '@a2a-js/sdk/client'
import { Agent, fetch } from 'undici'
import { expect, it } from 'vitest'
import type { AgentConfig, PlanStep } from '../../contracts/agents.ts'
import { A2A, AGENT_HOST_ROUTES } from '../../contracts/routes.ts'
import { createLog } from '../../runtime/kit/log.ts'
import { until } from '../helpers/until.ts'
import { TOKEN } from './host-rig.ts'
import { collect, startHostOnSocket, turnEnded } from './process-rig.ts'

const never = new AbortController().signal
const scripted = (...turns: PlanStep[][]): AgentConfig => ({ kind: 'scripted', plan: { turns } })
const say = (text: string): PlanStep => ({ kind: 'say', text })
const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')

it('carries the conversation to another sandbox only if its digest is the announced one', async () => {
  const first = await startHostOnSocket()
  const agent = scripted([say('first turn')], [say('second turn')])
  await first.configure({ agent })
  await first.client.turns.start({ id: 't1', prompt: 'go' }, never)
  await collect(first, 0, turnEnded)
  const session = new Uint8Array(await buffer((await first.client.getSession(never)) as never))

  const second = await startHostOnSocket()
  await second.configure(
    { agent, generation: 2, session: { sha256: sha256(session), bytes: session.length } },
    session,
  )
  await second.client.turns.start({ id: 't2', prompt: 'go on' }, never)
  const events = await collect(second, 0, turnEnded)

  const third = await startHostOnSocket()
  const forged = third.configure(
    { agent, session: { sha256: sha256(Buffer.from('other')), bytes: session.length } },
    session,
  )

  expect(events.find(({ event }) => event.type === 'agent.message')?.event).toMatchObject({
    data: { text: 'second turn' },
  })
  await expect(forged).rejects.toMatchObject({ code: 'configure_rejected' })
})

it('speaks A2A to the real client: card, stream, task, subscription of an ended turn', async () => {
  const host = await startHostOnSocket()
  await host.configure({ agent: scripted([say('hello')]) })
  const dispatcher = new Agent({ connect: { socketPath: host.host.socketPath } })
  const send: typeof globalThis.fetch = async (input, init = {}) => {
    const headers = new Headers(init.headers)
    headers.set('authorization', `Bearer ${TOKEN}`)
    headers.set('a2a-version', A2A.protocolVersion)
    const answer = await fetch(String(input), {
      method: init.method ?? 'GET',
      body: typeof init.body === 'string' ? init.body : null,
      headers: Object.fromEntries(headers),
      dispatcher,
    })
    return new Response(answer.body as ReadableStream | null, {
      status: answer.status,
      headers: [...answer.headers],
    })
  }
  const base = `http://agent-host${AGENT_HOST_ROUTES.a2aBase}`
  const card = AgentCard.fromJSON(await (await send(`${base}/.well-known/agent-card.json`)).json())
  const transport = await new RestTransportFactory({ fetchImpl: send }).create(
    `${base}/${A2A.versionPath}`,
    card,
  )
  const message = {
    messageId: 't1',
    contextId: '',
    taskId: '',
    role: Role.ROLE_USER,
    parts: [
      {
        content: { $case: 'text', value: 'go' } as const,
        metadata: undefined,
        filename: '',
        mediaType: 'text/plain',
      },
    ],
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
  }

  const states: (TaskState | undefined)[] = []
  for await (const { payload } of transport.sendMessageStream({
    tenant: '',
    message,
    configuration: undefined,
    metadata: undefined,
  })) {
    if (payload?.$case === 'task' || payload?.$case === 'statusUpdate')
      states.push(payload.value.status?.state)
  }
  const task = await transport.getTask({ tenant: '', id: 't1' })
  let subscribed = 0
  for await (const _event of transport.resubscribeTask({ tenant: '', id: 't1' })) subscribed += 1
  await dispatcher.close()

  expect(card.capabilities?.streaming).toBe(true)
  expect(states[0]).toBe(TaskState.TASK_STATE_WORKING)
  expect(states.at(-1)).toBe(TaskState.TASK_STATE_COMPLETED)
  expect(task.status?.state).toBe(TaskState.TASK_STATE_COMPLETED)
  expect(subscribed).toBe(states.length)
})

it('keeps its folder to itself and leaves nothing of it', async () => {
  const { host } = await startHostOnSocket()
  writeFileSync(join(host.directory, 'state', 'x'), 'x')

  expect(statSync(host.directory).mode & 0o777).toBe(0o700)
  await host.destroy()

  expect(existsSync(host.directory)).toBe(false)
})

it('says what its start took, which the benchmarks read', async () => {
  const lines: string[] = []
  const log = createLog({ level: 'debug', write: (line) => lines.push(JSON.parse(line).line) })

  await startHostOnSocket({ log, logLevel: 'debug' })

  const said = (message: string) =>
    lines
      .flatMap((line) => (line?.startsWith('{') ? [JSON.parse(line)] : []))
      .find((one) => one.message === message)
  await until('it has said standby', () => said('standby') !== undefined)
  const standby = said('standby')
  const waiting = said('waiting for the runner')
  expect(waiting).toMatchObject({ level: 'debug', afterMs: expect.any(Number) })
  expect(standby).toMatchObject({ level: 'info' })
  expect(standby.afterMs).toBeGreaterThanOrEqual(waiting.afterMs)
  expect(standby.processorMs).toBeGreaterThan(0)
  expect(standby.residentBytes).toBeGreaterThan(10 * 1024 ** 2)
})
