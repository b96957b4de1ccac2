import { Duplex } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { ExecRequest, type ExecResult } from '../../contracts/exec.ts'
import { HostToRunner, RUNNER_FRAME, type RunnerToHost } from '../../contracts/runner.ts'
import { connectToolbox } from '../../runtime/agent-host/toolbox/connect-toolbox.ts'
import type { RunnerLink } from '../../runtime/agent-host/toolbox/runner-link.ts'
import type { Backend } from '../../runtime/executors/executor.ts'
import { decodeFrames, encodeFrame } from '../../runtime/kit/frames.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { serveRunner } from '../../runtime/runner/serve.ts'
import { EXITED } from '../helpers/exec-result.ts'
import { until } from '../helpers/until.ts'
import { aRoot } from './runner-fixture.ts'

const ISOLATION = {
  backend: 'direct',
  isRealIsolation: false,
  enforcesEgress: false,
  reason: 'a test',
} as const
const HELLO = { type: 'hello', role: 'per-command', isolation: ISOLATION, pathEngine: 'walk' } as const

/** A runner that the test controls: it replies to every frame with the result of `answer`. */
async function aHostileRunner(answer: (frame: HostToRunner) => Uint8Array[]): Promise<RunnerLink> {
  const [hostEnd, runnerEnd] = aPair()
  runnerEnd.on('error', () => undefined)
  runnerEnd.write(encodeFrame(HELLO))
  void (async () => {
    for await (const { header } of decodeFrames(HostToRunner, runnerEnd)) {
      for (const bytes of answer(header)) runnerEnd.write(bytes)
    }
  })().catch(() => undefined)
  return connectToolbox(hostEnd)
}

const frame = (header: RunnerToHost, payload?: Uint8Array) => encodeFrame(header, payload)
const command = ExecRequest.parse({ command: 'true' })
const run = (link: RunnerLink) => link.exec(command, { onChunk: () => undefined })

const ATTACKS: readonly [string, (frame: HostToRunner) => Uint8Array[]][] = [
  ['noise', () => [Buffer.alloc(64, 0xff)]],
  ['a second hello', () => [frame(HELLO)]],
  ['a reply to no request', () => [frame({ type: 'exit', id: '99', result: EXITED })]],
  ['an id that is not a number', () => [frame({ type: 'exit', id: 'x', result: EXITED })]],
  [
    'an unrequested search for git directories',
    () => [frame({ type: 'held', id: 'held', held: { count: 1, names: ['x'], isComplete: true } })],
  ],
  ['a reply of another type', ({ id }) => [frame({ type: 'file-result', id, result: { ok: true } })]],
  ['an unnecessary credit', ({ id }) => [frame({ type: 'credit', id, bytes: 1 })]],
  ['an archive in place of output', ({ id }) => [frame({ type: 'data', id }, Buffer.from('x'))]],
  [
    'more output than the window allows',
    ({ id }) =>
      Array.from({ length: RUNNER_FRAME.windowBytes / RUNNER_FRAME.maxChunkBytes + 1 }, () =>
        frame({ type: 'chunk', id, stream: 'stdout' }, Buffer.alloc(RUNNER_FRAME.maxChunkBytes)),
      ),
  ],
  [
    'more empty output than the window allows',
    ({ id }) =>
      Array.from({ length: RUNNER_FRAME.windowBytes / RUNNER_FRAME.costBytes + 1 }, () =>
        frame({ type: 'chunk', id, stream: 'stdout' }),
      ),
  ],
]

describe('a runner that violates the protocol', () => {
  it.each(ATTACKS)('is disconnected for %s, and the call fails as lost', async (_title, attack) => {
    const link = await aHostileRunner((asked) => (asked.type === 'exec' ? attack(asked) : []))
    const blocked = Promise.withResolvers<void>()

    const running = link.exec(command, { onChunk: () => blocked.promise })
    const reason = await link.closed
    blocked.resolve()

    expect(reason).toMatch(/broke the protocol/)
    expect(await running).toMatchObject({ reason: 'lost', exitCode: null })
  })

  it.each([
    ['a payload for another operation', { op: 'stat', path: 'x' } as const, 1],
    ['more bytes than requested', { op: 'read', path: 'x', length: 10 } as const, 11],
  ])('is disconnected for %s', async (_title, operation, bytes) => {
    const link = await aHostileRunner(({ id }) => [
      frame({ type: 'file-result', id, result: { ok: true } }, Buffer.alloc(bytes)),
    ])

    const { result } = await link.file(operation)

    expect(result).toMatchObject({ ok: false, code: 'io_error' })
    expect(await link.closed).toMatch(/broke the protocol/)
  })

  it('may reply late to an abandoned request', async () => {
    const link = await aHostileRunner(({ type, id }) => {
      if (type === 'tar-out') return [frame({ type: 'data', id }, Buffer.from('x'))]
      if (type === 'kill') return [frame({ type: 'data', id }, Buffer.from('late'))]
      return [frame({ type: 'exit', id, result: EXITED })]
    })
    for await (const _ of link.tarOut()) break

    expect(await run(link), 'the control: an honest answer is taken').toMatchObject({ reason: 'exit' })
  })

  it('is rejected if it sends no hello', async () => {
    const [hostEnd, runnerEnd] = aPair()
    const connecting = connectToolbox(hostEnd)
    runnerEnd.write(frame({ type: 'exit', id: '1', result: EXITED }))

    await expect(connecting).rejects.toMatchObject({ code: 'sandbox_lost' })
  })

  it('is abandoned when the caller aborts', async () => {
    const [hostEnd] = aPair()
    const abort = new AbortController()
    const connecting = connectToolbox(hostEnd, { signal: abort.signal })

    abort.abort()

    await expect(connecting).rejects.toMatchObject({ code: 'sandbox_lost' })
  })
})

const BAD_INPUT: readonly [string, () => Uint8Array][] = [
  ['noise', () => Buffer.alloc(64, 0x41)],
  ['a frame of the other direction', () => frame({ type: 'exit', id: '1', result: EXITED })],
  ['an unknown operation', () => encodeFrame({ type: 'file', id: '2', operation: { op: 'chown' } } as never)],
  ['an id that is in use', () => encodeFrame({ type: 'exec', id: 'running', request: command } as never)],
]

describe('an AgentHost that violates the protocol', () => {
  it.each(BAD_INPUT)('loses the runner and everything running in it for %s', async (_title, bytes) => {
    const [hostEnd, runnerEnd] = aPair()
    hostEnd.on('error', () => undefined).resume()
    const executor = new WaitingBackend()
    const served = serveRunner({
      stream: runnerEnd,
      role: 'per-command',
      backend: executor,
      isolation: ISOLATION,
      toolRoots: [],
      clearsSetId: true,
      log: silentLog,
    })
    hostEnd.write(encodeFrame({ type: 'open', id: 'open', root: aRoot() } as never))
    await until('the workspace is open', () => executor.isCreated)
    hostEnd.write(encodeFrame({ type: 'exec', id: 'running', request: command } as never))
    await until('a command runs', () => executor.running === 1)

    hostEnd.write(bytes())
    await served

    expect(executor).toMatchObject({ running: 0, isClosed: true })
  })
})

/** A backend whose commands run until they are cancelled. */
class WaitingBackend implements Backend {
  readonly name = 'direct'
  isCreated = false
  isClosed = false
  running = 0

  async detect() {
    return { ok: true, isolation: ISOLATION, warnings: [] } as const
  }

  async create() {
    this.isCreated = true
    return {
      isolation: ISOLATION,
      hasSyscallFilter: false,
      run: async (_request: ExecRequest, { signal }: { signal?: AbortSignal }): Promise<ExecResult> => {
        this.running++
        await new Promise((resolve) => signal?.addEventListener('abort', resolve, { once: true }))
        this.running--
        return { ...EXITED, exitCode: null, reason: 'cancelled' }
      },
      close: async () => {
        this.isClosed = true
      },
    }
  }
}

/** Two ends of one connection in this process. */
function aPair(): [Duplex, Duplex] {
  const ends: Duplex[] = []
  const end = (other: () => Duplex | undefined) =>
    new Duplex({
      read: () => undefined,
      write: (bytes, _encoding, done) => {
        other()?.push(bytes)
        done()
      },
      final: (done) => {
        other()?.push(null)
        done()
      },
      destroy: (error, done) => {
        const peer = other()
        if (peer && !peer.destroyed) peer.push(null)
        done(error)
      },
    })
  const first = end(() => ends[1])
  const second = end(() => ends[0])
  ends.push(first, second)
  return [first, second]
}
