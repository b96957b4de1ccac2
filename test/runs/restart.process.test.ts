import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
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
