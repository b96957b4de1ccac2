import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import type { PlanStep } from '../../contracts/agents.ts'
import type { StartRunInput } from '../../contracts/api.ts'
import type { RunEnvelope } from '../../contracts/events.ts'
import { until } from '../helpers/until.ts'
import { kill, startServer } from './server-rig.ts'
import { dataOf, shell } from './service-rig.ts'

/** Processes of this test: those that work below its folder, and the command in its sandbox, by its odd argument. */
const processesOf = (folder: string, oddArgument: string): string[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8')
        return command.includes(oddArgument) || readlinkSync(`/proc/${pid}/cwd`).startsWith(folder)
      } catch {
        return false
      }
    })

it('continues a run of a service that was killed, with every event that a client saw and no process left', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'aw-restart-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const workspace = join(folder, 'workspace')
  mkdirSync(workspace)
  mkdirSync(join(folder, 'tmp'))
  const oddArgument = `300.${process.pid}`
  const first = await startServer(folder)
  const request: StartRunInput = {
    task: 'work until killed',
    workspace: { kind: 'path', path: workspace },
    agent: {
      kind: 'scripted',
      // The second time, the command ends.
      plan: {
        turns: [
          [
            shell(
              `for i in 1 2 3 4 5; do echo line $i; done; [ -e again ] && exit 0; touch again; sleep ${oddArgument}`,
            ),
          ],
        ],
      },
    },
  }
  const run = await first.client.startRun(request)

  const seen: RunEnvelope[] = []
  let runningBefore = 0
  const stop = new AbortController()
  try {
    for await (const envelope of first.client.streamEvents(run.id, { signal: stop.signal })) {
      seen.push(envelope)
      if (!JSON.stringify(envelope).includes('line 5')) continue
      runningBefore = processesOf(folder, oddArgument).length
      await kill(first.child)
      stop.abort()
    }
  } catch (error) {
    if (!stop.signal.aborted) throw error
  }
  await until('no process of the run is left', () => processesOf(folder, oddArgument).length === 0)
  const second = await startServer(folder)
  const after: RunEnvelope[] = []
  for await (const envelope of second.client.streamEvents(run.id)) after.push(envelope)

  expect(runningBefore, 'the control: there was something to leave').toBeGreaterThan(3)
  expect(seen.length).toBeGreaterThan(5)
  expect(after.slice(0, seen.length)).toEqual(seen)
  expect(after.map(({ sequence }) => sequence)).toEqual(after.map((_, index) => index + 1))
  expect(dataOf(after, 'run.interrupted')).toMatchObject([{ code: 'api_restarted' }])
  expect(dataOf(after, 'run.resumed')).toEqual([{ generation: 2 }])
  expect(await second.client.readRun(run.id)).toMatchObject({ state: 'succeeded' })
  expect(existsSync(join(folder, 'state', 'api-key'))).toBe(true)
  second.child.kill('SIGTERM')
  await once(second.child, 'exit')
  expect(readdirSync(join(folder, 'tmp'))).toEqual([])
})

it('suspends a run that waits when the service is stopped, and continues it after the next start', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'aw-restart-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const workspace = join(folder, 'workspace')
  for (const name of ['workspace', 'tmp']) mkdirSync(join(folder, name))
  const first = await startServer(folder)
  const start = (steps: PlanStep[]) =>
    first.client.startRun({
      task: 'work over a stop of the service',
      workspace: { kind: 'path', path: workspace },
      agent: { kind: 'scripted', plan: { turns: [steps] } },
    })
  const asks = await start([shell('mkdir build && rm -rf build && echo removed >> log.txt')])
  const works = await start([shell('[ -e again ] && exit 0; touch again; sleep 300')])
  await until('one run waits', async () => (await first.client.readRun(asks.id)).state === 'waiting')
  await until('the other works', () => existsSync(join(workspace, 'again')))
  first.child.kill('SIGTERM')
  await once(first.child, 'exit')

  const second = await startServer(folder)
  const suspended = await second.client.readRun(asks.id)
  const { items } = await second.client.listApprovals(asks.id)
  await second.client.approveShell(asks.id, { requestId: items[0]?.requestId ?? '', scope: 'once' })
  for (const { id } of [asks, works])
    await until('the run has ended', async () => (await second.client.readRun(id)).endedAt !== undefined)

  expect(suspended).toMatchObject({ state: 'suspended', waiting: { for: 'approval' }, generation: 1 })
  expect(readFileSync(join(workspace, 'log.txt'), 'utf8')).toBe('removed\n')
  expect(await second.client.readRun(asks.id)).toMatchObject({ state: 'succeeded', generation: 2 })
  expect(await second.client.readRun(works.id)).toMatchObject({ state: 'succeeded', generation: 2 })
  second.child.kill('SIGTERM')
  await once(second.child, 'exit')
})

it('is left alone by a service for one command, and continued by the next service that was not started for one command', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'aw-restart-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const workspace = join(folder, 'workspace')
  for (const name of ['workspace', 'tmp']) mkdirSync(join(folder, name))
  const first = await startServer(folder)
  const { id } = await first.client.startRun({
    task: 'work until killed',
    workspace: { kind: 'path', path: workspace },
    agent: {
      kind: 'scripted',
      plan: { turns: [[shell('[ -e again ] && exit 0; touch again; sleep 300')]] },
    },
  })
  await until('it works', () => existsSync(join(workspace, 'again')))
  await kill(first.child)

  // Its lifeline is closed from the start.
  const temporary = await startServer(folder, [], { AGENTWEAVER_LIFELINE: 'true' })
  await once(temporary.child, 'exit')
  const third = await startServer(folder)
  await until('it has ended', async () => (await third.client.readRun(id)).endedAt !== undefined)

  expect(await third.client.readRun(id)).toMatchObject({ state: 'succeeded', generation: 2 })
  third.child.kill('SIGTERM')
  await once(third.child, 'exit')
})
