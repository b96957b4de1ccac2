import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { beforeAll, describe, expect, test } from 'vitest'
import * as z from 'zod'
import { type Evidence, missing } from '../../cli/demo/checks.ts'
import { processesOf } from '../../cli/demo/left-behind.ts'
import { FIX } from '../../cli/demo/plan.ts'
import { RunEnvelope, type RunEvent } from '../../contracts/events.ts'
import { runCli, startAtTerminal, startCli, until, untilQuiet } from '../cli/run-cli.ts'

const Line = RunEnvelope.extend({ runId: z.string() })

test('passes with the backend below bubblewrap', async () => {
  const env = { AGENTWEAVER_ISOLATION: 'linux-namespaces' }

  const { status, stdout, stderr } = await runCli(['demo'], { env })

  expect(stderr).toBe('Approved without asking, since there is no terminal: rm -rf build\n')
  expect(status).toBe(0)
  expect(stdout).toContain('isolation  linux-namespaces')
  expect(stdout.match(/refused {2}(?:a path|the network|the host's environment)/g)).toHaveLength(3)
  expect(stdout.trimEnd()).toMatch(/no process and no file is left\.$/)
})

describe('at a terminal', () => {
  test('asks the person, and passes after a yes', async () => {
    await using terminal = startAtTerminal(['demo'])

    await terminal.shows('Allow it?')
    terminal.type('y\r')

    expect(await terminal.exited).toBe(0)
    expect(terminal.screen()).not.toContain('Approved without asking')
  })

  test('lists the parts that it did not show after a no', async () => {
    await using terminal = startAtTerminal(['demo'])

    await terminal.shows('Allow it?')
    terminal.type('n keep it\r')

    expect(await terminal.exited).toBe(1)
    expect(terminal.screen()).toContain('the deleting command waited for an approval and then ran')
    expect(terminal.screen()).toContain('You denied the command. Run the demo again')
  })

  test('Ctrl-C before the service has started leaves nothing behind', async () => {
    await using terminal = startAtTerminal(['demo'])

    await terminal.shows('works in /')
    const stage = /works in (\S+)\/parcel-rates/.exec(terminal.screen())?.[1] ?? ''
    terminal.type('\u0003')

    expect(await terminal.exited).toBe(130)
    expect(terminal.screen()).toContain('Interrupted; nothing is left behind.')
    expect(stage).toMatch(/aw-demo-/)
    expect(existsSync(stage)).toBe(false)
  })

  test('Ctrl-C ends it and leaves nothing behind', async () => {
    await using terminal = startAtTerminal(['demo'])

    await terminal.shows('Allow it?')
    terminal.type('\u0003')

    expect(await terminal.exited).toBe(130)
    expect(terminal.screen()).toContain('Interrupted; nothing is left behind.')
  })
})

test('if it is killed, the service and all of its processes end by themselves', async () => {
  const child = startCli(['demo'])
  let shown = ''
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    shown += chunk
    // The demo is stopped here, so that it cannot end before it is killed.
    if (shown.includes('intent')) child.kill('SIGSTOP')
  })
  await until('the run has a sandbox', () => shown.includes('intent'))
  const [root = ''] = shown.match(/\/\S+\/aw-demo-[^/]+/) ?? []
  const before = await processesOf(root)

  child.kill('SIGKILL')

  expect(before.length).toBeGreaterThan(1)
  await untilQuiet(root)
  await rm(root, { recursive: true })
})

describe('the checks detect', () => {
  let evidence: Evidence

  beforeAll(async () => {
    const { stdout, status } = await runCli(['demo', '--yes', '--json'])
    expect(status).toBe(0)
    const events = stdout
      .trimEnd()
      .split('\n')
      .map((line) => Line.parse(JSON.parse(line)))
      .map(({ runId: _runId, ...envelope }) => envelope)
    const [hostUrl = ''] = stdout.match(/http:\/\/localhost:\d+\//) ?? []
    evidence = {
      events,
      hostUrl,
      hostConnections: 0,
      fixedFile: FIX,
      buildExists: false,
      secret: 'outside-0123',
      canary: { name: 'DEMO_HOST_SECRET', value: 'host-0123' },
    }
  })

  /** The same events without the selected ones, renumbered. */
  const without = (pick: (event: RunEvent) => boolean): Evidence => ({
    ...evidence,
    events: evidence.events
      .filter(({ event }) => !pick(event))
      .map((envelope, index) => ({ ...envelope, sequence: index + 1 })),
  })
  const withOutput = (chunk: string): Evidence => {
    const commandId = evidence.events
      .map(({ event }) => event)
      .findLast((event) => event.type === 'command.output')?.data.commandId
    const event = {
      type: 'command.output',
      data: { commandId: commandId ?? '', stream: 'stdout', chunk },
    } as const
    const last = evidence.events.at(-1)
    return {
      ...evidence,
      events: last ? [...evidence.events, { ...last, sequence: last.sequence + 1, event }] : [],
    }
  }

  test('nothing if everything happened (control)', () => {
    expect(missing(evidence)).toEqual([])
  })

  test.each<[string, () => Evidence, string]>([
    ['a gap', () => ({ ...evidence, events: evidence.events.slice(1) }), 'without gaps'],
    ['no sandbox', () => without(({ type }) => type === 'sandbox.execution_pod.bound'), 'a separate sandbox'],
    ['no isolation', () => without(({ type }) => type === 'sandbox.selected'), 'really isolated'],
    ['no intent', () => without(({ type }) => type === 'agent.intent'), 'stated its intent'],
    ['no release', () => without(({ type }) => type === 'sandbox.execution_pod.released'), 'was released'],
    ['no end', () => without(({ type }) => type === 'done'), 'the run succeeded'],
    ['no approval', () => without(({ type }) => type === 'shell.approved'), 'waited for an approval'],
    [
      'no question',
      () => without(({ type }) => type === 'shell.approval_required'),
      'waited for an approval',
    ],
    ['no outcome', () => without(({ type }) => type === 'run.outcome'), 'reported the outcome'],
    ['no output', () => without(({ type }) => type === 'command.output'), 'ran and failed'],
    ['no results', () => without(({ type }) => type === 'tool.result'), 'searched'],
    ['no refusal', () => without(({ type }) => type === 'tool.denied' || type === 'tool.error'), 'outside'],
    ['an unrepaired file', () => ({ ...evidence, fixedFile: '' }), 'repaired the file'],
    ['a folder that was not deleted', () => ({ ...evidence, buildExists: true }), 'and then ran'],
    ['a connection to the host', () => ({ ...evidence, hostConnections: 1 }), 'the network was refused'],
    ['the secret in an output', () => withOutput('outside-0123'), 'a path outside'],
    [
      "the host's variable in an output",
      () => withOutput('DEMO_HOST_SECRET=x'),
      "host's environment was refused",
    ],
  ])('%s', (_what, change, expected) => {
    expect(missing(change()).join('\n')).toContain(expected)
  })
})
