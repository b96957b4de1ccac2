import { afterAll, describe, expect, it, onTestFinished } from 'vitest'
import type { AgentConfig, PlanStep } from '../../contracts/agents.ts'
import type { HostEnvelope } from '../../contracts/events.ts'
import { ExecRequest } from '../../contracts/exec.ts'
import { createAgentHostClient } from '../../runtime/agent-host-client/client.ts'
import type { Batch, Committed } from '../../runtime/api/runs/ingest/commit-batch.ts'
import { Relay } from '../../runtime/api/runs/ingest/relay.ts'
import { SandboxError } from '../../runtime/kit/errors.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { createLaptop, startOnPort, startOnSocket } from '../agent-host/laptop-hosts.ts'
import { type Line, startLine } from '../agent-host/line-cutter.ts'
import {
  BEARER,
  collect,
  configure,
  exited,
  fresh,
  type HostUnderTest,
  never,
  turnEnded,
} from '../conformance/agent-host-cases/host.ts'
import { until } from '../helpers/until.ts'
import { allCommitted } from './all-committed.ts'

const laptop = createLaptop()
afterAll(() => laptop.remove())

const shell = (command: string): PlanStep => ({ kind: 'tool', tool: 'run_command', arguments: { command } })
const say = (text: string): PlanStep => ({ kind: 'say', text })
const scripted = (...turns: PlanStep[][]): AgentConfig => ({ kind: 'scripted', plan: { turns } })

/** A fake store that keeps the batches. `before` runs before a batch is kept. */
class Kept {
  readonly envelopes: HostEnvelope[] = []
  before: () => Promise<void> = async () => undefined
  release = true

  commit = async ({ envelopes }: Batch): Promise<Committed> => {
    await this.before()
    this.envelopes.push(...envelopes)
    const calls = envelopes.flatMap(({ event }) => (event.type === 'tool.call' ? [event.data.callId] : []))
    const decisions = this.release ? calls.map((callId) => ({ callId, outcome: 'release' as const })) : []
    return { ...allCommitted(envelopes), decisions }
  }

  has(is: (envelope: HostEnvelope) => boolean): boolean {
    return this.envelopes.some(is)
  }

  get sequences(): number[] {
    return this.envelopes.map(({ sequence }) => sequence)
  }
}

const inOrder = (kept: Kept) => Array.from({ length: kept.envelopes.length }, (_, i) => i + 1)

/** An AgentHost at the other end of a line, as the API has it: one client, one relay. */
async function aRelayedHost(start: () => Promise<HostUnderTest>, agent: AgentConfig = { kind: 'none' }) {
  const subject = { start, keys: () => laptop.keys, hasIdentity: false }
  const host = await fresh(subject)
  const { status } = await configure(subject, host, { change: { agent } })
  expect(status).toBe(200)
  const line = await startLine(host)
  const client = createAgentHostClient(line.address, BEARER)
  onTestFinished(() => client.close())
  return { host, line, client, ...relayOn(client, new Kept()) }
}

function relayOn(client: ReturnType<typeof createAgentHostClient>, kept: Kept) {
  const stop = new AbortController()
  const relay = new Relay({
    runId: 'run-1',
    generation: 1,
    client,
    commit: kept.commit,
    onCommitted: () => undefined,
    maxWeight: Number.POSITIVE_INFINITY,
    signal: stop.signal,
    log: silentLog,
  })
  const relaying = relay.run()
  relaying.catch(() => undefined)
  onTestFinished(() => stop.abort())
  return { kept, relay, relaying, stop }
}

const outputOf = (kept: Kept): string =>
  kept.envelopes.map(({ event }) => (event.type === 'command.output' ? event.data.chunk : '')).join('')

/** Cuts, at least, of a line that breaks again and again, and the connections after them. */
const FEW = 3

/** Cuts the connection after every few new events, until the number of cuts is sufficient. */
async function cutUntil(line: Line, kept: Kept, isEnough: (cuts: number) => boolean): Promise<number> {
  let cuts = 0
  for (let last = -1; !isEnough(cuts); ) {
    await until('something came', () => kept.envelopes.length > last)
    last = kept.envelopes.length
    line.cut()
    cuts += 1
  }
  return cuts
}

describe.each([
  ['a Unix socket', () => startOnSocket(laptop), false],
  ['a TCP port', () => startOnPort(laptop), true],
] as const)('the relay over %s', (_what, start, isPort) => {
  it('loses and repeats nothing on a line that breaks again and again', async () => {
    const { host, line, client, kept } = await aRelayedHost(start)
    // The command prints lines until the test creates `enough.txt`, after enough connection breaks.
    const command =
      'i=0; until test -e enough.txt; do i=$((i+1)); echo "line $i"; sleep 0.02; done; echo "all $i"'

    await client.startCommand('c1', ExecRequest.parse({ command }), never)
    // Fewer than one verification per cut: data from a connection may be kept after its cut, and the next cut then
    // finds no connection.
    const cuts = await cutUntil(line, kept, (done) => done > FEW && (!isPort || line.state.verified > FEW))
    const direct = createAgentHostClient(host.address, BEARER)
    onTestFinished(() => direct.close())
    const enough = { op: 'write', path: 'enough.txt', create: 'allowed', parents: false } as const
    await direct.file(enough, new Uint8Array(), never)
    await until('it has ended', () => kept.has(exited('c1')))

    expect(cuts).toBeGreaterThan(FEW)
    expect(kept.sequences).toEqual(inOrder(kept))
    const said = outputOf(kept).trim().split('\n')
    const lines = Array.from({ length: said.length - 1 }, (_, index) => `line ${index + 1}`)
    expect(said).toEqual([...lines, `all ${lines.length}`])
    expect(line.state.verified > FEW).toBe(isPort)
  })

  it('keeps a turn running without the API, and delivers all its events to the next client', async () => {
    const wait = shell('echo up; until test -e go.txt; do sleep 0.02; done; echo one')
    const { host, client, kept, stop } = await aRelayedHost(start, scripted([wait, say('two')]))
    await client.turns.start({ id: 't1', prompt: 'go' }, never)
    await until('the call is released and works', () =>
      kept.has(({ event }) => event.type === 'command.output'),
    )
    stop.abort()
    await client.close()

    const next = createAgentHostClient(host.address, BEARER)
    onTestFinished(() => next.close())
    await next.file(
      { op: 'write', path: 'go.txt', create: 'allowed', parents: false },
      new Uint8Array(),
      never,
    )
    const rest = await collect({ client: next }, turnEnded, { after: kept.envelopes.length })

    const sequences = [...kept.envelopes, ...rest].map(({ sequence }) => sequence)
    expect(sequences).toEqual(Array.from({ length: sequences.length }, (_, i) => i + 1))
    expect(rest.at(-1)?.event).toMatchObject({ data: { state: 'completed' } })
  })

  it('brings a decision to the call that waits for it, and its effect back', async () => {
    const { client, kept, relay } = await aRelayedHost(start, scripted([shell('echo done')]))
    kept.release = false
    await client.turns.start({ id: 't1', prompt: 'go' }, never)
    await until('it waits', () => kept.has(({ event }) => event.type === 'tool.call'))

    await relay.post([{ callId: 't1.1', outcome: 'release' }])
    await until('it has ended', () => kept.has(turnEnded))

    expect(outputOf(kept)).toBe('done\n')
    expect(kept.envelopes.at(-1)?.event).toMatchObject({ data: { state: 'completed' } })
  })

  it('posts a decision again that a broken line swallowed', async () => {
    const { client, kept, relay, line } = await aRelayedHost(start, scripted([shell('echo done')]))
    kept.release = false
    await client.turns.start({ id: 't1', prompt: 'go' }, never)
    await until('it waits', () => kept.has(({ event }) => event.type === 'tool.call'))

    const posted = relay.post([{ callId: 't1.1', outcome: 'release' }])
    line.cut()
    await posted
    await until('it has run', () => kept.has(turnEnded))

    expect(kept.has(({ event }) => event.type === 'tool.result')).toBe(true)
    expect(kept.sequences).toEqual(inOrder(kept))
  })

  it('cancels on a line that has just broken', async () => {
    const { client, kept, line } = await aRelayedHost(start, scripted([shell('echo up; sleep 300')]))
    await client.turns.start({ id: 't1', prompt: 'go' }, never)
    await until('it works', () => kept.has(({ event }) => event.type === 'command.output'))

    line.cut()
    await client.turns.cancel('t1', never)
    await until('the end is told', () => kept.has(turnEnded))

    expect(kept.envelopes.at(-1)?.event).toMatchObject({ data: { state: 'cancelled' } })
  })

  it('takes no more than it can hold from a sandbox while the store is slow, and loses nothing', async () => {
    const { client, kept } = await aRelayedHost(start)
    const open = Promise.withResolvers<void>()
    let waiting = 0
    kept.before = async () => {
      waiting += 1
      await open.promise
    }
    const flood = { command: 'head -c 50000000 /dev/zero | tr "\\0" x', maxOutputBytes: 60_000_000 }

    await client.startCommand('c1', ExecRequest.parse({ ...flood, timeoutMs: 120_000 }), never)
    await until('the store is asked', () => waiting === 1)
    open.resolve()
    await until('all of it is stored', () => kept.has(exited('c1')), 150_000)

    expect(outputOf(kept)).toHaveLength(50_000_000)
    expect(kept.sequences).toEqual(inOrder(kept))
  })
})

it('ends at once if the address of a pod has another owner, and sends it nothing', async () => {
  const { line, relaying, kept, client } = await aRelayedHost(() => startOnPort(laptop))
  await client.startCommand('c1', ExecRequest.parse({ command: 'echo up; sleep 300' }), never)
  await until('it works', () => kept.envelopes.length > 0)

  line.state.refusal = new SandboxError('identity_mismatch', 'this is another pod')
  const asked = line.state.verified
  line.cut()

  await expect(relaying).rejects.toMatchObject({ code: 'identity_mismatch' })
  expect(line.state.verified).toBe(asked + 1)
})
