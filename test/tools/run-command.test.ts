import { describe, expect, it } from 'vitest'
import { EXEC_LIMITS } from '../../contracts/exec.ts'
import { SandboxSettings } from '../../contracts/policy.ts'
import { COMMAND_CONTENT } from '../../runtime/tools/run-command.ts'
import { MemoryToolbox } from '../fakes/memory-toolbox.ts'
import { aRegistry, callsOn, contentOf } from './tools-rig.ts'

const bytes = (text: string) => Buffer.from(text)

describe('run_command', () => {
  it.each([
    ['bash', /with bash in/],
    ['sh', /with \/bin\/sh \(there is no bash\) in/],
    [undefined, /with \/bin\/sh \(there is no bash\) in/],
  ] as const)('tells the model which shell runs: %s', (shell, words) => {
    const toolbox = new MemoryToolbox()
    toolbox.isolation = { ...toolbox.isolation, ...(shell && { shell }) }

    const definition = aRegistry({ toolbox }).definitions.find(({ name }) => name === 'run_command')

    expect(definition?.description).toMatch(words)
  })

  it('requests exactly what the settings allow', async () => {
    const toolbox = new MemoryToolbox()
    const settings = SandboxSettings.parse({
      network_enabled: true,
      max_output_bytes: 2_097_152,
      allowed_repository_roots: ['/srv/reference'],
    })

    await callsOn(toolbox, { settings })('run_command', { command: 'make', directory: 'src', timeout_ms: 5 })
    await callsOn(toolbox)('run_command', { command: 'make' })

    expect(toolbox.requests).toMatchObject([
      {
        command: 'make',
        directory: 'src',
        environment: {},
        timeoutMs: 5,
        network: true,
        maxOutputBytes: 2_097_152,
        readOnlyRoots: ['/srv/reference'],
      },
      { directory: '.', timeoutMs: EXEC_LIMITS.defaultTimeoutMs, network: false, readOnlyRoots: [] },
    ])
  })

  it('streams output while the command runs, in whole characters', async () => {
    const toolbox = new MemoryToolbox()
    const seen: string[] = []
    const [first, second] = [bytes('\u{1F99A} ok').subarray(0, 2), bytes('\u{1F99A} ok').subarray(2)]
    toolbox.command = async (_request, io) => {
      await io.onChunk('stdout', first)
      await io.onChunk('stdout', second)
      seen.push('still running')
      await io.onChunk('stderr', bytes('warning'))
      return {}
    }

    const outcome = await callsOn(toolbox, {
      io: { emitOutput: (stream, text) => void seen.push(`${stream} ${text}`) },
    })('run_command', { command: 'x' })

    expect(seen).toEqual(['stdout \u{1F99A} ok', 'still running', 'stderr warning'])
    expect(contentOf(outcome)).toBe('Exit code 0.\nstdout:\n\u{1F99A} ok\nstderr:\nwarning')
  })

  it('slows a command down to the pace of its reader', async () => {
    const toolbox = new MemoryToolbox()
    const read = Promise.withResolvers<void>()
    let isPast = false
    toolbox.command = async (_request, io) => {
      await io.onChunk('stdout', bytes('x'))
      isPast = true
      return {}
    }
    const running = callsOn(toolbox, { io: { emitOutput: () => read.promise } })('run_command', {
      command: 'x',
    })
    await new Promise((resolve) => setImmediate(resolve))

    const before = isPast
    read.resolve()
    await running

    expect([before, isPast]).toEqual([false, true])
  })

  it.each([
    ['an exit code', { exitCode: 3 }, 'Exit code 3.'],
    ['a signal', { exitCode: null, signal: 'SIGSEGV', reason: 'signal' }, 'Ended by SIGSEGV.'],
    [
      'a timeout',
      { exitCode: null, signal: 'SIGKILL', timedOut: true, reason: 'timeout', durationMs: 50 },
      'Timed out after 50 ms',
    ],
    ['lost output', { outputTruncated: true }, 'exceeded the limit'],
  ] as const)('reports %s as a success', async (_what, result, text) => {
    const toolbox = new MemoryToolbox()
    toolbox.command = async () => result

    const outcome = await callsOn(toolbox)('run_command', { command: 'x' })

    expect(contentOf(outcome)).toContain(text)
    const { reason: _reason, ...facts } = { reason: '', ...result }
    expect(outcome).toMatchObject({ ok: true, facts })
  })

  it.each(['spawn_failed', 'lost', 'cancelled'] as const)(
    'reports a command that is %s as a failure',
    async (reason) => {
      const toolbox = new MemoryToolbox()
      toolbox.command = async () => ({ reason, exitCode: null })

      expect(await callsOn(toolbox)('run_command', { command: 'x' })).toMatchObject({
        ok: false,
        code: reason,
      })
    },
  )

  it('returns the beginning and the end of a long output, and streams all of it', async () => {
    const toolbox = new MemoryToolbox()
    const emitted: string[] = []
    toolbox.command = async (_request, io) => {
      await io.onChunk('stdout', bytes('the beginning\n'))
      for (let count = 0; count < 100; count += 1) await io.onChunk('stdout', bytes('x'.repeat(10_000)))
      await io.onChunk('stdout', bytes('\nthe end'))
      return {}
    }

    const outcome = await callsOn(toolbox, {
      io: { emitOutput: (_stream, text) => void emitted.push(text) },
    })('run_command', { command: 'x' })

    const content = contentOf(outcome)
    expect(content).toMatch(/the beginning[\s\S]*\d+ characters left out[\s\S]*the end/)
    expect(content.length).toBeLessThan(COMMAND_CONTENT.headCharacters + COMMAND_CONTENT.tailCharacters + 200)
    expect(emitted.join('').length).toBe(1_000_000 + 'the beginning\n\nthe end'.length)
    expect(outcome).toMatchObject({ facts: { trimmed: true } })
  })
})
