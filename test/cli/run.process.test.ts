import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { anApproval, approved, done, queued } from './events.ts'
import { aRun, FAKE_KEY, type FakeService, RUN_ID, startFakeService } from './fake-service.ts'
import { aFolder, runCli, startAtTerminal, startCli, until } from './run-cli.ts'

const loginTo = ({ url }: FakeService) => ({ AGENTWEAVER_URL: url, AGENTWEAVER_API_KEY: FAKE_KEY })
const RUN = ['run', 'fix it', '--empty-workspace', '--agent', 'copilot']
const APPROVALS = `/api/runs/${RUN_ID}/shell-approvals`
const DENIALS = `/api/runs/${RUN_ID}/shell-denials`
const CANCEL = `/api/runs/${RUN_ID}/cancel`

const bodiesOf = ({ requests }: FakeService, path: string) =>
  requests.filter((request) => request.path === path).map(({ body }) => body)

/** Approves like the service, which reports the decision in the stream. */
function answerDecisions(service: FakeService): void {
  service.answer = ({ path }) => {
    if (path === APPROVALS) service.publish(approved, done('succeeded'))
    if (path === CANCEL) service.publish({ type: 'run.cancelled', data: { by: 'me' } }, done('cancelled'))
    if (path === CANCEL) return { body: aRun({ state: 'cancelled' }) }
    return path === APPROVALS ? { body: anApprovalAnswer() } : undefined
  }
}

const anApprovalAnswer = () => ({
  requestId: 'req-1',
  runId: RUN_ID,
  callId: 'call-1',
  tool: 'run_command',
  state: 'approved',
  expiresAt: new Date().toISOString(),
})

describe('run', () => {
  test('prints the events and exits with 0 if the run succeeded', async () => {
    await using service = await startFakeService()
    service.publish(queued, { type: 'agent.intent', data: { intent: 'look around' } }, done('succeeded'))

    const { status, stdout } = await runCli(RUN, { env: loginTo(service) })

    expect(status).toBe(0)
    expect(stdout).toMatch(/task {2}fix it\n.*intent {2}look around\n.*done {2}succeeded/s)
  })

  test('prints no colours of an agent into a pipe or with NO_COLOR, and keeps them at a terminal', async () => {
    await using service = await startFakeService()
    const text = '\u001b[35mpurple\u001b[0m'
    service.publish(queued, { type: 'agent.message', data: { messageId: 'm', text } }, done('succeeded'))
    const env = loginTo(service)

    const inPipe = await runCli(RUN, { env })
    await using plain = startAtTerminal(RUN, { env })
    await using coloured = startAtTerminal(RUN, { env: { ...env, NO_COLOR: '' } })
    await Promise.all([plain.exited, coloured.exited])

    expect(inPipe.stdout).toContain('purple')
    expect(inPipe.stdout).not.toContain('\u001b')
    expect(plain.screen()).toContain('purple')
    expect(plain.screen()).not.toContain('\u001b[35m')
    expect(coloured.screen()).toContain('\u001b[35mpurple')
  })

  test('exits with 1 if the run failed', async () => {
    await using service = await startFakeService()
    service.publish(
      queued,
      { type: 'run.failed', data: { code: 'sandbox_lost', message: 'gone' } },
      done('failed'),
    )

    const { status, stdout } = await runCli(RUN, { env: loginTo(service) })

    expect(status).toBe(1)
    expect(stdout).toContain('gone (sandbox_lost)')
  })

  test('prints only JSON Lines with the id of the run with --json', async () => {
    await using service = await startFakeService()
    service.publish(queued, done('succeeded'))

    const { stdout } = await runCli([...RUN, '--json'], { env: loginTo(service) })

    const lines = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(lines).toMatchObject([
      { runId: RUN_ID, sequence: 1, event: { type: 'run.queued' } },
      { runId: RUN_ID, sequence: 2, event: { type: 'done' } },
    ])
  })

  test('continues after a broken stream', async () => {
    await using service = await startFakeService()
    service.publish(queued)
    const child = startCli(RUN, { env: loginTo(service) })
    let shown = ''
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
      shown += chunk
    })
    await until('the first event is shown', () => shown.includes('fix it'))

    service.breakStreams()
    service.publish({ type: 'agent.intent', data: { intent: 'once more' } }, done('succeeded'))

    await until('the command ends', () => child.exitCode !== null)
    expect(child.exitCode).toBe(0)
    expect(shown.match(/fix it/g)).toHaveLength(1)
    expect(shown.match(/once more/g)).toHaveLength(1)
  })

  test('prints how to approve and waits if there is no terminal', async () => {
    await using service = await startFakeService()
    service.publish(queued, anApproval())
    const child = startCli(RUN, { env: loginTo(service) })
    let said = ''
    child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
      said += chunk
    })

    await until(
      'it says how',
      () => said.includes(`agentweaver approve ${RUN_ID} req-1`),
      () => said,
    )

    expect(child.exitCode).toBeNull()
    service.publish(approved, done('succeeded'))
    await until('the command ends', () => child.exitCode !== null)
    expect(child.exitCode).toBe(0)
  })

  test('approves without asking with --yes', async () => {
    await using service = await startFakeService()
    answerDecisions(service)
    service.publish(queued, anApproval())

    const { status } = await runCli([...RUN, '--yes'], { env: loginTo(service) })

    expect(status).toBe(0)
    expect(bodiesOf(service, APPROVALS)).toEqual([{ requestId: 'req-1', scope: 'once' }])
  })

  test('prints only the id with --detach', async () => {
    await using service = await startFakeService()

    const { status, stdout } = await runCli([...RUN, '--detach'], { env: loginTo(service) })

    expect({ status, stdout }).toEqual({ status: 0, stdout: `${RUN_ID}\n` })
    expect(service.isFollowed()).toBe(false)
  })

  test('uploads the folder, because the service at a URL may be on another machine', async () => {
    await using service = await startFakeService()
    service.publish(queued, done('succeeded'))
    const folder = await aFolder('aw-run-test-')
    const plan = { turns: [[{ kind: 'say', text: 'hello' }]] }
    await writeFile(join(folder, 'plan.json'), JSON.stringify(plan))

    await runCli(['run', 'hi', '-w', '.', '--plan', 'plan.json'], { env: loginTo(service), cwd: folder })

    expect(bodiesOf(service, '/api/runs')).toEqual([
      {
        task: 'hi',
        workspace: { kind: 'upload' },
        agent: { kind: 'scripted', plan },
        interactive: false,
      },
    ])
  })
})

test('run --allow-no-outcome asks for a run that needs no report', async () => {
  await using service = await startFakeService()
  service.publish(queued, done('succeeded'))

  await runCli([...RUN, '--allow-no-outcome'], { env: loginTo(service) })

  expect(bodiesOf(service, '/api/runs')).toMatchObject([{ requireOutcome: false }])
})

describe('run at a terminal', () => {
  test('asks with the escaped command and sends the approval', async () => {
    await using service = await startFakeService()
    answerDecisions(service)
    service.publish(queued, anApproval({ command: 'rm -rf build\u202e # safe' }))
    await using terminal = startAtTerminal(RUN, { env: loginTo(service) })

    await terminal.shows('Allow it?')
    terminal.type('y\r')

    expect(await terminal.exited).toBe(0)
    expect(terminal.screen()).toContain('rm -rf build<U+202E> # safe')
    expect(bodiesOf(service, APPROVALS)).toEqual([{ requestId: 'req-1', scope: 'once' }])
  })

  test('warns if the request was redacted, and offers no approval for the whole run', async () => {
    await using service = await startFakeService()
    answerDecisions(service)
    service.publish(queued, anApproval({ redacted: true }))
    await using terminal = startAtTerminal(RUN, { env: loginTo(service) })

    await terminal.shows(/is redacted.*Allow it\?/s)
    terminal.type('r\r')
    await terminal.shows(/Allow it\?.*Allow it\?/s)
    terminal.type('y\r')

    expect(await terminal.exited).toBe(0)
    expect(bodiesOf(service, APPROVALS)).toHaveLength(1)
  })

  test('ignores input that was typed before the question', async () => {
    await using service = await startFakeService()
    service.answer = ({ path }) => {
      if (path === APPROVALS || path === DENIALS) service.publish(approved, done('succeeded'))
      return path === APPROVALS || path === DENIALS ? { body: anApprovalAnswer() } : undefined
    }
    service.publish(queued)
    await using terminal = startAtTerminal(RUN, { env: loginTo(service) })
    await terminal.shows('fix it')

    terminal.type('y\ry\ry')
    await terminal.shows(/y\r?\ny\r?\ny/)
    service.publish(anApproval())
    await terminal.shows('Allow it?')
    terminal.type('n not yet\r')

    expect(await terminal.exited).toBe(0)
    expect(bodiesOf(service, APPROVALS)).toEqual([])
    expect(bodiesOf(service, DENIALS)).toEqual([{ requestId: 'req-1', reason: 'not yet' }])
  })

  test('shows the size, the beginning and the end of a long command, and the command that prints all of it', async () => {
    await using service = await startFakeService()
    answerDecisions(service)
    const lines = Array.from({ length: 300 }, (_, index) => `echo step-${index + 1}`)
    service.publish(queued, anApproval({ command: lines.join('\n') }))
    await using terminal = startAtTerminal(RUN, { env: loginTo(service) })

    await terminal.shows('Allow it?')
    terminal.type('n\r')

    const question = terminal.screen().slice(terminal.screen().indexOf('wants to run'))
    expect(question).toContain('4,091 characters in 300 lines')
    expect(question).toContain('  1  echo step-1\r\n')
    expect(question).toContain('300  echo step-300\r\n')
    expect(question).not.toContain('step-150')
    expect(question).toContain(`agentweaver logs ${RUN_ID}`)
    expect(question.split('\n').length).toBeLessThan(40)
  })

  test('withdraws the question if it was decided elsewhere', async () => {
    await using service = await startFakeService()
    service.publish(queued, anApproval())
    await using terminal = startAtTerminal(RUN, { env: loginTo(service) })
    await terminal.shows('Allow it?')

    service.publish(approved, done('succeeded'))

    expect(await terminal.exited).toBe(0)
    expect(bodiesOf(service, APPROVALS)).toEqual([])
  })

  test('cancels the run after Ctrl-C and a yes, and exits with 130', async () => {
    await using service = await startFakeService()
    answerDecisions(service)
    service.publish(queued)
    await using terminal = startAtTerminal(RUN, { env: loginTo(service) })
    await terminal.shows('fix it')

    terminal.type('\u0003')
    await terminal.shows('Cancel the run?')
    terminal.type('y\r')

    expect(await terminal.exited).toBe(130)
    expect(terminal.screen()).toContain(`Asking the service to cancel ${RUN_ID}`)
    expect(bodiesOf(service, CANCEL)).toHaveLength(1)
  })

  test('continues after Ctrl-C and a no', async () => {
    await using service = await startFakeService()
    service.publish(queued)
    await using terminal = startAtTerminal(RUN, { env: loginTo(service) })
    await terminal.shows('fix it')

    terminal.type('\u0003')
    await terminal.shows('Cancel the run?')
    terminal.type('n\r')
    await terminal.shows('The run continues.')
    service.publish(done('succeeded'))

    expect(await terminal.exited).toBe(0)
    expect(bodiesOf(service, CANCEL)).toEqual([])
  })

  test('leaves the run running after a second Ctrl-C and prints how to follow it', async () => {
    await using service = await startFakeService()
    service.publish(queued)
    await using terminal = startAtTerminal(RUN, { env: loginTo(service) })
    await terminal.shows('fix it')

    terminal.type('\u0003')
    await terminal.shows('Cancel the run?')
    terminal.type('\u0003')

    expect(await terminal.exited).toBe(130)
    expect(terminal.screen()).toContain(`agentweaver logs -f ${RUN_ID}`)
    expect(bodiesOf(service, CANCEL)).toEqual([])
  })

  test('does not say that a run continues whose cancellation was sent', async () => {
    await using service = await startFakeService()
    answerDecisions(service)
    service.publish(queued)
    await using terminal = startAtTerminal(RUN, { env: loginTo(service) })
    await terminal.shows('fix it')

    terminal.type('\u0003')
    await terminal.shows('Cancel the run?')
    terminal.type('y\r')
    await terminal.shows('Asking the service to cancel')
    terminal.type('\u0003')
    await terminal.exited

    expect(terminal.screen()).not.toContain('The run continues')
  })

  test('repeats the approval question after Ctrl-C and a no', async () => {
    await using service = await startFakeService()
    answerDecisions(service)
    service.publish(queued, anApproval())
    await using terminal = startAtTerminal(RUN, { env: loginTo(service) })
    await terminal.shows('Allow it?')

    terminal.type('\u0003')
    await terminal.shows('Cancel the run?')
    terminal.type('n\r')
    await terminal.shows(/continues.*Allow it\?/s)
    terminal.type('y\r')

    expect(await terminal.exited).toBe(0)
  })
})

test('an interrupt without a terminal cancels the run', async () => {
  await using service = await startFakeService()
  answerDecisions(service)
  service.publish(queued)
  const child = startCli(RUN, { env: loginTo(service) })
  await until('the run is followed', service.isFollowed)

  child.kill('SIGINT')

  await until('the command ends', () => child.exitCode !== null)
  expect(child.exitCode).toBe(130)
  expect(bodiesOf(service, CANCEL)).toHaveLength(1)
})
