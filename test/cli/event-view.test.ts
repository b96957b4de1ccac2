import { describe, expect, test } from 'vitest'
import { createPaint } from '../../cli/terminal/paint.ts'
import type { ViewOptions } from '../../cli/view/command-view.ts'
import { createEventView } from '../../cli/view/event-view.ts'
import type { RunEvent } from '../../contracts/events.ts'
import { EXITED } from '../helpers/exec-result.ts'
import { anApproval, done, queued } from './events.ts'

const look = { paint: createPaint(false), width: 80 }

/** Formats events as one text. */
function shown(events: readonly RunEvent[], options: ViewOptions = {}, isColoured = false): string {
  const view = createEventView({ ...look, paint: createPaint(isColoured) }, options)
  return events
    .flatMap((event, index) => view({ sequence: index + 1, at: '2026-01-01T00:00:00.000Z', event }))
    .join('\n')
}

const aCall = (tool: string, request: unknown): RunEvent => ({
  type: 'tool.call',
  data: { callId: 'c', tool, request, verdict: 'allow', reasons: [] },
})
const anOutput = (chunk: string): RunEvent => ({
  type: 'command.output',
  data: { commandId: 'k', callId: 'c', stream: 'stdout', chunk },
})
const anExit = (exitCode: number): RunEvent => ({
  type: 'command.exited',
  data: {
    commandId: 'k',
    callId: 'c',
    result: { ...EXITED, exitCode, durationMs: 12 },
  },
})

describe('the event view shows', () => {
  test('how much of a budget is used', () => {
    const event: RunEvent = {
      type: 'run.budget',
      data: { kind: 'tokens', used: 160_113, limit: 200_000 },
    }

    expect(shown([event])).toBe('   budget  160,113 of 200,000 tokens (80 %)')
  })

  test('that the workspace becomes full, and that it has room again', () => {
    const usage = (change: object): RunEvent => ({
      type: 'workspace.usage',
      data: {
        ...{ level: 80, bytes: 8.5 * 2 ** 30, files: 12_000, maxBytes: 10 * 2 ** 30, maxFiles: 1_000_000 },
        ...{ isComplete: true, ...change },
      },
    })

    expect(shown([usage({})])).toBe('workspace  commands have written 8.5 GiB of 10.0 GiB (85 %).')
    expect(shown([usage({ level: 95, bytes: 2 ** 20, files: 950_000 })])).toBe(
      'workspace  commands have written 950,000 of 1,000,000 files (95 %).',
    )
    expect(shown([usage({ level: 0, bytes: 2 ** 20, files: 1 })])).toBe(
      'workspace  there is room again: commands have written 1.0 MiB of 10.0 GiB (0 %).',
    )
    expect(shown([usage({ isComplete: false })])).toBe(
      [
        'workspace  commands have written 8.5 GiB of 10.0 GiB (85 %; not all files could',
        '           be counted, so this is the growth of the file system).',
      ].join('\n'),
    )
  })

  test('how much of a limit of the network is used', () => {
    const event: RunEvent = {
      type: 'egress.budget',
      data: { kind: 'requests', host: 'registry.npmjs.org', used: 50_000, limit: 100_000 },
    }

    expect(shown([event])).toBe('  network  50,000 of 100,000 requests to registry.npmjs.org (50 %)')
  })

  test('the output of a setup command below its line, and a command of a person with a line of its own', () => {
    const command: RunEvent = {
      type: 'setup.command',
      data: { commandId: 'k', command: 'npm ci', number: 1, of: 2 },
    }
    const output = (commandId: string): RunEvent => ({
      type: 'command.output',
      data: { commandId, stream: 'stdout', chunk: 'said\n' },
    })

    expect(shown([command, output('k')])).toBe('    setup  npm ci  1 of 2\n         │ said')
    expect(shown([command, output('other')])).toContain('exec  command of a person  other')
  })

  test('why a turn failed, and the same reason only once if the run fails with it', () => {
    const reason = { code: 'agent_failed', message: 'The server at http://m has no model "x"' } as const
    const aFailedTurn: RunEvent = { type: 'turn.ended', data: { turnId: 't', state: 'failed', ...reason } }
    const aFailedRun = (message: string): RunEvent => ({
      type: 'run.failed',
      data: { code: reason.code, message },
    })

    expect(shown([aFailedTurn, aFailedRun(reason.message)])).toBe(
      [
        '     turn  failed: The server at http://m has no model "x" (agent_failed)',
        '   failed  the last turn failed (agent_failed)',
      ].join('\n'),
    )
    expect(shown([aFailedTurn, aFailedRun('it was lost')])).toContain('failed  it was lost (agent_failed)')
    expect(shown([{ type: 'turn.ended', data: { turnId: 't', state: 'completed' } }])).toBe('')
  })

  test.each([
    [{ exitCode: null, signal: 'SIGTERM', timedOut: true }, 'timed out'],
    [{ exitCode: null, signal: 'SIGKILL', timedOut: false }, 'SIGKILL'],
    [{ exitCode: 3, signal: null, timedOut: false }, 'exit 3'],
  ])('how a command ended that has printed nothing: %o', (facts, how) => {
    const outcome = { ok: true as const, content: '', facts }
    const event: RunEvent = {
      type: 'tool.result',
      data: { callId: 'c', tool: 'run_command', outcome, durationMs: 12 },
    }

    expect(shown([event])).toContain(`${how}  12 ms`)
  })

  test('a command, its output in lines independent of the chunks, and its exit status', () => {
    const text = shown([
      aCall('run_command', { command: 'npm test' }),
      anOutput('one\ntw'),
      anOutput('o\nrest'),
      anExit(1),
    ])

    expect(text).toBe(
      [
        '      run  npm test',
        '         │ one',
        '         │ two',
        '         │ rest',
        '           exit 1  12 ms',
      ].join('\n'),
    )
  })

  test('every file of a patch, in any patch format', () => {
    const patch = [
      ...['diff --git a/old name b/new name', 'similarity index 100%', 'rename from old name'],
      ...['rename to new name', 'diff --git a/gone b/gone', 'deleted file mode 100644', '--- a/gone'],
      ...['+++ /dev/null', '@@ -1 +0,0 @@', '-x', ''],
    ].join('\n')

    expect(shown([aCall('apply_patch', { patch })])).toContain('old name, new name, gone')
    expect(shown([aCall('apply_patch', { patch: 'prose' })])).toContain('expected "diff --git"')
  })

  test('only the first lines of limited output, and the number of the remaining lines', () => {
    const text = shown([anOutput('1\n2\n3\n4\n5\n'), anExit(0)], { outputLines: 2 })

    expect(text).toContain('│ 2\n')
    expect(text).not.toContain('│ 3')
    expect(text).toContain('… 3 more lines')
  })

  test('the lines that an edit removes and adds', () => {
    const text = shown([aCall('str_replace_editor', { path: 'a.js', old_str: 'x < y', new_str: 'x <= y' })])

    expect(text).toContain('str_replace_editor  a.js')
    expect(text).toContain('│ - x < y')
    expect(text).toContain('│ + x <= y')
  })

  test('a refusal once, although two events report it', () => {
    const text = shown([
      aCall('read_file', { path: '../x' }),
      { type: 'tool.denied', data: { callId: 'c', tool: 'read_file', by: 'policy', reason: 'outside' } },
      {
        type: 'tool.error',
        data: { callId: 'c', tool: 'read_file', code: 'policyDenied', message: 'outside' },
      },
    ])

    expect(text.match(/refused/g)).toHaveLength(1)
    expect(text).toContain('refused  by policy: outside')
  })

  test('a message while it streams, and not again when it is complete', () => {
    const text = shown([
      { type: 'agent.message.delta', data: { messageId: 'm', text: 'Hello\nwor' } },
      { type: 'agent.message.delta', data: { messageId: 'm', text: 'ld' } },
      { type: 'agent.message', data: { messageId: 'm', text: 'Hello\nworld' } },
    ])

    expect(text).toBe('     says  Hello\n           world')
  })

  test('an approval request with the command', () => {
    expect(shown([anApproval()])).toContain('approve?  rm -rf build')
  })

  test('the isolation, and a highlighted warning without isolation', () => {
    const text = shown([
      queued,
      {
        type: 'sandbox.selected',
        data: { backend: 'direct', isRealIsolation: false, shell: 'bash', reason: 'the operator said so' },
      },
      done('succeeded'),
    ])

    expect(text).toContain('isolation  direct, not isolated, bash  the operator said so')
  })

  test('that a folder could not be searched for git directories, even if none was renamed', () => {
    const shownWith = (count: number, isComplete: boolean) =>
      shown([{ type: 'workspace.held', data: { count, names: ['a/.git'].slice(0, count), isComplete } }])

    expect(shownWith(1, true)).toContain('1 git directory in your folder renamed')
    expect(shownWith(1, true)).not.toContain('Run no git command below it')
    expect(shownWith(0, false)).toContain('Run no git command below it')
    expect(shownWith(0, false)).not.toContain('renamed')
  })

  test('why a run waits for a sandbox, and what to do', () => {
    const pending = (resource: string, attempt: number): RunEvent => ({
      type: 'subtask.pending_capacity',
      data: { resource, requested: 1, available: 0, attempt, nextAttemptAt: '2026-01-01T00:01:00.000Z' },
    })
    const told = (...events: RunEvent[]) => shown(events).replaceAll(/\s+/g, ' ')

    const first = told(pending('sandboxes', 1))
    expect(first).toContain('no room for this run yet: every sandbox is in use')
    expect(first).toContain('tries again as soon as there is room, at the latest in 1 min 0 s')
    expect(first).toContain('agentweaver cancel RUN')
    expect(told(pending('pods', 2))).toContain(
      'the quota of the namespace for pods is used up (it needs 1, and 0 are left)',
    )
  })

  test('the settings that the first run puts in force', () => {
    const path = '/p/.agentweaver/settings.yml'
    const first = (settings: 'file' | 'defaults') =>
      shown([{ type: 'policy.settings_trusted', data: { path, settings } }])

    expect(first('file')).toContain('settings  First run in /p: its settings file is in force')
    expect(first('defaults')).toContain('settings  First run in /p, which has no settings file')
  })

  test.each([
    ['changed', 'is ignored: it differs'],
    ['added', 'is ignored: the defaults are in force'],
    ['removed', 'is missing: the settings in force stay'],
  ] as const)('settings that are not obeyed since they were %s, and how to accept them', (reason, words) => {
    const ignored = (path: string): RunEvent => ({ type: 'policy.settings_ignored', data: { path, reason } })

    const inFolder = shown([ignored("/a b/it's/.agentweaver/settings.yml")], { suffix: ' --url http://x' })
    const inUpload = shown([ignored('.agentweaver/settings.yml')])

    expect(inFolder.replaceAll(/\s+/g, ' ')).toContain(words)
    expect(inFolder).toMatch(/^ +agentweaver trust '\/a b\/it'\\''s' --url http:\/\/x$/m)
    expect(inUpload).toContain(words)
    expect(inUpload).toContain('come with the request')
    expect(inUpload).not.toContain('agentweaver trust')
  })

  test('no control sequences from an agent', () => {
    const text = shown([
      { type: 'agent.message', data: { messageId: 'm', text: 'hi\u001b]0;title\u0007' } },
      aCall('run_command', { command: 'ls\u202e' }),
      anOutput('\u001b[2Jgone\n'),
    ])

    expect(text).not.toMatch(/[\u0007\u001b\u202e]/)
  })
})

describe('text from a sandbox', () => {
  const steering = '\u001b]0;owned\u0007\u001b[2J'

  test.each<[string, RunEvent]>([
    ['the name of a tool', aCall(`x${steering}`, {})],
    [
      'the code of a refusal',
      {
        type: 'tool.error',
        data: { callId: 'c', tool: 'create', code: `denied${steering}`, message: 'no' },
      },
    ],
    [
      'the code of a failed outcome',
      {
        type: 'tool.result',
        data: {
          callId: 'c',
          tool: 'create',
          outcome: { ok: false, code: `x${steering}`, message: 'no' },
          durationMs: 1,
        },
      },
    ],
    [
      'an exit code that is not a number',
      {
        type: 'tool.result',
        data: {
          callId: 'c',
          tool: 'run_command',
          outcome: { ok: true, content: '', facts: { exitCode: `0${steering}` } },
          durationMs: 1,
        },
      },
    ],
    [
      'a signal that is not a name',
      {
        type: 'command.exited',
        data: { commandId: 'k', result: endedBySignal(`KILL${steering}`) },
      },
    ],
  ])('cannot control the terminal through %s', (_what, event) => {
    const text = shown([event])

    expect(text).toContain('<U+001B>]0;owned')
    expect(text).not.toMatch(/[\u0007\u001b]/)
  })

  test.each<[string, RunEvent]>([
    ['output', anOutput('\u001b[8mlooks empty\n')],
    ['a message', { type: 'agent.message', data: { messageId: 'm', text: '\u001b[30;40mlooks empty' } }],
  ])('resets the colours of %s at the end of the line, so that no later line is hidden', (_what, event) => {
    const lines = shown([event, anApproval()], {}, true).split('\n')

    expect(lines[0]).toContain('looks empty\u001b[0m')
    expect(lines.at(-1)).toContain('rm -rf build')
  })

  test.each<[string, RunEvent]>([
    ['output', anOutput('\u001b[31mred\u001b[0m and\u001b[2J more\n')],
    [
      'a message',
      { type: 'agent.message', data: { messageId: 'm', text: '\u001b[31mred\u001b[0m and\u001b[2J more' } },
    ],
  ])('shows %s without colours if colours are off', (_what, event) => {
    expect(shown([event])).toContain('red and<U+001B>[2J more')
  })
})

function endedBySignal(signal: string) {
  return {
    exitCode: null,
    signal,
    timedOut: false,
    outputTruncated: false,
    stdoutBytes: 0,
    stderrBytes: 0,
    reason: 'signal' as const,
    durationMs: 1,
  }
}
