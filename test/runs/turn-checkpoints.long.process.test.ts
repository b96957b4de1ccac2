import { describe, expect, it, onTestFinished } from 'vitest'
import type { StartRunInput } from '../../contracts/api.ts'
import { type ModelReply, startModelServer, textOf } from '../fakes/model-server.ts'
import { until } from '../helpers/until.ts'
import { alice, aRun, dataOf, follow, shell, startService, tool } from './service-rig.ts'

/** The pause is longer than the time between two checkpoints. */
const EVERY = { AGENTWEAVER_CHECKPOINT_EVERY_SECONDS: '1' }
const PAUSE = { kind: 'wait', ms: 1_500 } as const
const ONE = 'echo one >> log.txt'
const TWO = 'echo two >> log.txt'

async function aService(env: Record<string, string>) {
  const started = await startService(env)
  onTestFinished(() => started.close())
  return started
}
type Started = Awaited<ReturnType<typeof aService>>

/** Starts a run over an empty workspace, and kills its sandbox when a call with this command has its result. */
async function lostAfter(
  { service, store }: Started,
  command: string,
  change: Pick<StartRunInput, 'agent'>,
): Promise<string> {
  const { id } = await service.startRun(alice, aRun('/', [], { ...change, workspace: { kind: 'empty' } }))
  await until(`"${command}" has run`, async () => {
    const events = await service.readEvents(alice, id, { after: 0, limit: 500 })
    const call = dataOf(events, 'tool.call').find(({ request }) => JSON.stringify(request).includes(command))
    return dataOf(events, 'tool.result').some(({ callId }) => callId === call?.callId)
  })
  const claims = await store.listClaims(['bound'])
  const { pid } = claims.find(({ runId }) => runId === id)!.handle as { pid: number }
  process.kill(-pid, 'SIGKILL')
  return id
}

const REPORT: ModelReply = { toolCalls: [{ name: 'report_outcome', arguments: { outcome: 'succeeded' } }] }

const calls = (events: Awaited<ReturnType<typeof follow>>, command: string) =>
  dataOf(events, 'tool.call').filter(({ request }) => JSON.stringify(request).includes(command))

const logOf = async ({ service }: Started, id: string) =>
  Buffer.concat(
    await Array.fromAsync(await service.downloadWorkspace(alice, id, AbortSignal.timeout(600_000))),
  ).toString()

const STEPS = [shell(ONE), PAUSE, shell(TWO), { kind: 'wait', ms: 4_000 } as const]
const report = tool('report_outcome', { outcome: 'succeeded' })
const scripted = { agent: { kind: 'scripted' as const, plan: { turns: [[...STEPS, report]] } } }

describe('a turn that is saved between two calls', () => {
  it('loses only the work since then when its sandbox is lost', async () => {
    const started = await aService(EVERY)
    const { service, store } = started
    const id = await lostAfter(started, TWO, scripted)
    const events = await follow(service, id)

    expect(dataOf(events, 'run.interrupted')).toMatchObject([{ code: 'sandbox_lost' }])
    expect(dataOf(events, 'done')).toEqual([{ state: 'succeeded' }])
    expect(calls(events, ONE)).toHaveLength(1)
    expect(calls(events, TWO)).toHaveLength(2)
    expect(await logOf(started, id)).toContain('one\ntwo\n')
    const [turn] = await store.transaction((tx) => tx.listTurns(id))
    expect(turn?.sentPrompt).toContain(TWO)
    expect(turn?.sentPrompt).toContain('The workspace no longer shows this.')
    expect(turn?.sentPrompt).not.toContain(ONE)
  })

  it('reports a call as possibly done that ran when its sandbox was lost', async () => {
    const started = await aService(EVERY)
    const { service, store } = started
    const slow = 'echo two >> log.txt; sleep 300'
    const agent = { kind: 'scripted' as const, plan: { turns: [[shell(ONE), PAUSE, shell(slow), report]] } }
    const { id } = await service.startRun(alice, aRun('/', [], { agent, workspace: { kind: 'empty' } }))
    await until('the second call is released after a checkpoint', async () => {
      const run = await store.readRun(id)
      const released = await store.transaction((tx) => tx.listCalls(id, ['released']))
      return run?.checkpoint?.openCalls?.length === 1 && released.length === 1
    })
    const [claim] = await store.listClaims(['bound'])
    process.kill(-(claim!.handle as { pid: number }).pid, 'SIGKILL')

    await until('the turn is sent again', async () => {
      const [turn] = await store.transaction((tx) => tx.listTurns(id))
      return turn?.sentPrompt?.includes('The sandbox was lost while this ran') ?? false
    })
    await service.cancel(alice, id)
  })

  it('cannot continue without such a checkpoint (control)', async () => {
    const started = await aService({})
    const id = await lostAfter(started, TWO, scripted)
    const events = await follow(started.service, id)

    expect(dataOf(events, 'run.failed')).toMatchObject([{ code: 'sandbox_lost' }])
  })

  it('continues in the conversation of the Copilot SDK', async () => {
    const run = (command: string): ModelReply => ({
      toolCalls: [{ name: 'run_command', arguments: { command } }],
    })
    let isLost = false
    const first = [run(`sleep 1.5; ${ONE}`), run(TWO)]
    const later = (lastRole: string | undefined): ModelReply =>
      lastRole === 'tool' ? { text: 'Done.' } : REPORT
    const model = await startModelServer({
      respond: ({ messages }, index) =>
        first[index] ?? (isLost ? later(messages.at(-1)?.role) : { hang: true }),
    })
    onTestFinished(() => model.close())
    const started = await aService({ ...EVERY, OPENAI_BASE_URL: model.url, OPENAI_API_KEY: 'key' })
    const id = await lostAfter(started, TWO, { agent: { kind: 'openaiCompatible', model: 'any' } })
    isLost = true
    const events = await follow(started.service, id)

    expect(dataOf(events, 'done')).toEqual([{ state: 'succeeded' }])
    expect(calls(events, ONE)).toHaveLength(1)
    const log = await logOf(started, id)
    expect(log).toContain('one\n')
    expect(log).not.toContain('two\n')
    const messages = model.requests.at(-1)?.messages ?? []
    const results = messages.filter(({ role }) => role === 'tool').map(textOf)
    expect(results[0], 'the first call and its result are in the conversation').toContain('Exit code 0')
    expect(textOf(messages.findLast(({ role }) => role === 'user')!)).toContain(
      'The workspace no longer shows this.',
    )
  })
})
