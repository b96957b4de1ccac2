import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { ForkRun } from '../../contracts/api.ts'
import { CONTROL_TOOL_NAMES, TOOL_NAMES } from '../../contracts/tools.ts'
import { recordOf } from '../../runtime/audit/record.ts'
import type { Store } from '../../runtime/store/store.ts'
import { conversationOf } from '../agents/suspended-turns.ts'
import { type ModelReply, startModelServer, textOf } from '../fakes/model-server.ts'
import { until } from '../helpers/until.ts'
import { alice, aRun, dataOf, follow, startService, typesOf } from './service-rig.ts'

const KEY = 'sk-operator-key-that-nobody-may-see-0123456789'

const auditOf = async (store: Pick<Store, 'readAudit'>, runId: string) =>
  (await store.readAudit({ runId, limit: 200 })).items
    .map(recordOf)
    .filter(({ kind }) => kind !== 'seal')
    .toSorted((a, b) => a.sequence - b.sequence)

const REPORT: ModelReply = { toolCalls: [{ name: 'report_outcome', arguments: { outcome: 'succeeded' } }] }

/** The model's replies, request by request. */
const SCRIPT: ModelReply[] = [
  { text: 'Let me look.', toolCalls: [{ name: 'read_file', arguments: { path: 'greeting.txt' } }] },
  { toolCalls: [{ name: 'run_command', arguments: { command: 'cat greeting.txt; env; rm -rf build' } }] },
  { toolCalls: [{ name: 'edit', arguments: { path: 'greeting.txt', old_str: 'helo', new_str: 'hello' } }] },
  { toolCalls: [{ name: 'bash', arguments: { command: 'id' } }] },
  { toolCalls: [{ name: 'read_file', arguments: { path: '/etc/passwd' } }] },
  REPORT,
]

it('drives the real Copilot SDK through API, AgentHost, tools and sandbox, with exactly our tools', async () => {
  const model = await startModelServer({ respond: (_request, index) => SCRIPT[index] ?? { text: 'Done.' } })
  onTestFinished(() => model.close())
  const { service, store, aWorkspace, close } = await startService({
    OPENAI_BASE_URL: model.url,
    OPENAI_API_KEY: KEY,
  })
  onTestFinished(close)
  const path = aWorkspace()
  writeFileSync(join(path, 'greeting.txt'), 'helo\n')

  const run = await service.startRun(alice, {
    ...aRun(path, []),
    task: 'Correct the greeting.',
    agent: { kind: 'openaiCompatible', model: 'any-model' },
  })
  const events = await follow(service, run.id, async (event) => {
    if (event.type !== 'shell.approval_required') return
    await service.decideShell(alice, run.id, {
      outcome: 'approved',
      requestId: event.data.requestId,
      scope: 'once',
    })
  })

  const offered = model.requests[0]?.tools.map((tool) => tool.function.name).toSorted()
  expect(offered).toEqual([...TOOL_NAMES, ...CONTROL_TOOL_NAMES].toSorted())
  expect(readFileSync(join(path, 'greeting.txt'), 'utf8')).toBe('hello\n')
  expect(typesOf(events)).toEqual(
    expect.arrayContaining([
      'agent.message.delta',
      'agent.message',
      'tool.call',
      'shell.approved',
      'agent.turn.usage',
    ]),
  )
  expect(dataOf(events, 'done')).toEqual([{ state: 'succeeded' }])
  const lastRequest = model.requests.at(-1)
  const answers = lastRequest?.messages.filter(({ role }) => role === 'tool').map(textOf) ?? []
  expect(answers[1]).toContain('Exit code 0')
  expect(answers.at(-2)).toContain('The policy of this run refuses this call')
  expect(dataOf(events, 'tool.denied').map(({ tool }) => tool)).toContain('read_file')

  const everythingKept = JSON.stringify([
    events,
    (await store.readAudit({ runId: run.id, limit: 200 })).items,
  ])
  expect(everythingKept).not.toContain(KEY)
  expect(answers.join('\n')).not.toContain(KEY)
  expect(model.requests[0]?.headers['authorization'], 'the control: the model server did get the key').toBe(
    `Bearer ${KEY}`,
  )
})

it('continues after a model wrote 40 MB of arguments, with an event and an audit record', async () => {
  const model = await startModelServer({
    respond: (_request, index) =>
      index === 0
        ? {
            toolCalls: [{ name: 'create', arguments: { path: 'a', file_text: 'x'.repeat(40_000_000) } }],
            holdAfter: 12_000_000,
          }
        : index === 1
          ? { ...REPORT, text: 'In parts, then.' }
          : { text: 'Done.' },
  })
  onTestFinished(() => model.close())
  const { service, store, aWorkspace, close } = await startService({
    OPENAI_BASE_URL: model.url,
    OPENAI_API_KEY: KEY,
  })
  onTestFinished(close)

  const run = await service.startRun(alice, {
    ...aRun(aWorkspace(), []),
    agent: { kind: 'openaiCompatible', model: 'any-model' },
  })
  const events = await follow(service, run.id)

  expect(dataOf(events, 'done')).toEqual([{ state: 'succeeded' }])
  const [first, ...others] = dataOf(events, 'tool.call')
  expect(first).toMatchObject({ tool: 'create', request: null, verdict: 'deny' })
  expect(others.map(({ tool }) => tool)).toEqual(['report_outcome'])
  expect(dataOf(events, 'tool.error')).toMatchObject([{ tool: 'create', code: 'arguments_too_large' }])
  expect(dataOf(events, 'tool.denied')[0]?.reason).toContain('Your last answer was stopped')
  expect(dataOf(events, 'agent.message').map(({ text }) => text)).toEqual(['In parts, then.', 'Done.'])
  const records = await auditOf(store, run.id)
  expect(records.slice(0, 2)).toMatchObject([
    { kind: 'intent', tool: 'create', decision: 'deny' },
    { kind: 'outcome', tool: 'create', outcome: 'arguments_too_large' },
  ])
})

it('keeps an event and an audit record of invalid calls, with secrets hidden', async () => {
  const secret = 'ghp_0123456789abcdefghijABCDEFGHIJ012345'
  const calls = [
    { name: 'create', arguments: '{"path": "a' },
    { name: 'frobnicate', arguments: { token: secret } },
    { name: `tool ${'n'.repeat(300)}`, arguments: `${secret} is no JSON` },
  ]
  const model = await startModelServer({
    respond: (_request, index) => (index === 0 ? { toolCalls: calls } : { text: 'Done.' }),
  })
  onTestFinished(() => model.close())
  const { service, store, aWorkspace, close } = await startService({ OPENAI_BASE_URL: model.url })
  onTestFinished(close)

  const run = await service.startRun(alice, {
    ...aRun(aWorkspace(), [], { requireOutcome: false }),
    agent: { kind: 'openaiCompatible', model: 'any-model' },
  })
  const events = await follow(service, run.id)

  expect(dataOf(events, 'done')).toEqual([{ state: 'succeeded' }])
  const tools = ['create', 'frobnicate', `tool_${'n'.repeat(123)}`]
  const announced = dataOf(events, 'tool.call')
  expect(announced.map(({ tool }) => tool).toSorted()).toEqual(tools)
  expect(new Set(announced.map(({ verdict }) => verdict))).toEqual(new Set(['deny']))
  expect(
    dataOf(events, 'tool.denied')
      .map(({ tool }) => tool)
      .toSorted(),
  ).toEqual(tools)
  expect(new Set(dataOf(events, 'tool.error').map(({ code }) => code))).toEqual(new Set(['unusable_call']))
  const records = await auditOf(store, run.id)
  expect(
    records.map(({ kind, tool, decision, outcome }) => [kind, tool, decision ?? outcome]).toSorted(),
  ).toEqual(
    tools
      .flatMap((tool) => [
        ['intent', tool, 'deny'],
        ['outcome', tool, 'unusable_call'],
      ])
      .toSorted(),
  )
  expect(JSON.stringify([events, records])).not.toContain(secret)
  const told = model.requests.at(-1)?.messages.filter(({ role }) => role === 'tool') ?? []
  expect(told, 'the model is told of each').toHaveLength(3)
})

it('fails the run with a helpful message when the model cannot be reached', async () => {
  const model = await startModelServer({
    respond: () => ({ status: 401, body: { error: { message: `the key ${KEY} is bad` } } }),
  })
  onTestFinished(() => model.close())
  const { service, aWorkspace, close } = await startService({
    OPENAI_BASE_URL: model.url,
    OPENAI_API_KEY: KEY,
  })
  onTestFinished(close)

  const run = await service.startRun(alice, {
    ...aRun(aWorkspace(), []),
    agent: { kind: 'openaiCompatible', model: 'any-model' },
  })
  const events = await follow(service, run.id)

  expect(dataOf(events, 'run.failed')[0]?.code).toMatch(
    /^(agent_failed|credential_forbidden|agent_quota_exceeded)$/,
  )
  expect(JSON.stringify(events)).not.toContain(KEY)
})

it('forks a conversation of the real Copilot SDK: the model sees the earlier turns in both runs', async () => {
  const model = await startModelServer({
    respond: ({ messages }) =>
      messages.at(-1)?.role === 'tool'
        ? { text: 'Done.' }
        : { ...REPORT, text: `I got: ${textOf(messages.at(-1))}` },
  })
  onTestFinished(() => model.close())
  const { service, close } = await startService({ OPENAI_BASE_URL: model.url, OPENAI_API_KEY: KEY })
  onTestFinished(close)
  const source = await service.startRun(alice, {
    ...aRun('', [], { workspace: { kind: 'empty' } }),
    task: 'remember the word heron',
    agent: { kind: 'openaiCompatible', model: 'any-model' },
  })
  await follow(service, source.id)

  const forks = [
    await service.forkRun(alice, source.id, ForkRun.parse({ task: 'which word?' })),
    await service.forkRun(alice, source.id, ForkRun.parse({ task: 'which bird?' })),
  ]
  for (const { id } of forks)
    expect(dataOf(await follow(service, id), 'done')).toEqual([{ state: 'succeeded' }])

  const conversations = model.requests.map((request) => conversationOf(request).filter(isSaid))
  for (const task of ['which word?', 'which bird?'])
    expect(conversations).toContainEqual([
      'user: remember the word heron',
      expect.stringContaining('I got: '),
      'assistant: Done.',
      `user: ${task}`,
    ])
})

const isSaid = (message: string) => !message.startsWith('tool ')

it('forks a conversation of the real Copilot SDK in which a call waits, without the call', async () => {
  const model = await startModelServer({
    respond: ({ messages }) => {
      const last = messages.at(-1)
      if (last?.role === 'tool') return { text: 'Done.' }
      return textOf(last).includes('clean up')
        ? { toolCalls: [{ name: 'run_command', arguments: { command: 'mkdir build && rm -rf build' } }] }
        : REPORT
    },
  })
  onTestFinished(() => model.close())
  const { service, store, close } = await startService({ OPENAI_BASE_URL: model.url, OPENAI_API_KEY: KEY })
  onTestFinished(close)
  const source = await service.startRun(alice, {
    ...aRun('', [], { workspace: { kind: 'empty' } }),
    task: 'clean up',
    agent: { kind: 'openaiCompatible', model: 'any-model' },
  })
  await until('it waits', async () => (await service.readRun(alice, source.id)).state === 'waiting')
  await service.suspend(alice, source.id)

  const { id } = await service.forkRun(alice, source.id, ForkRun.parse({ task: 'leave it' }))
  const events = await follow(service, id)

  expect(dataOf(events, 'done')).toEqual([{ state: 'succeeded' }])
  expect(dataOf(events, 'tool.call').map(({ tool }) => tool)).toEqual(['report_outcome'])
  const asked = conversationOf(model.requests[1])
  expect(asked[0]).toBe('user: clean up')
  expect(asked.at(-1)).toMatch(/^user: .*middle of a turn[\s\S]*"run_command"[\s\S]*leave it$/)
  expect(await store.listApprovals(source.id, { state: 'pending' })).toHaveLength(1)
  await service.cancel(alice, source.id)
})
