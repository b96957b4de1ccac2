import { readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { expect, it } from 'vitest'
import type { RunEventType } from '../../contracts/events.ts'
import { errnoOf } from '../../runtime/kit/errors.ts'
import { until } from '../helpers/until.ts'
import { alice, aRun, dataOf, follow, shell, useService } from './service-rig.ts'

const use = useService({ AGENTWEAVER_LOCAL_WARM: '2' })

/** An AgentHost has one child: its runner, which corresponds to the toolbox in a pod. */
const runnerOf = (host: number): number =>
  Number(readFileSync(`/proc/${host}/task/${host}/children`, 'utf8').trim().split(' ')[0])

function end(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if (errnoOf(error) !== 'ESRCH') throw error
  }
}

type Pids = { readonly host: number; readonly runner: number }
const DEATHS: Readonly<Record<string, (pids: Pids) => void>> = {
  'its AgentHost is killed': ({ host }) => end(host, 'SIGKILL'),
  'its toolbox is killed': ({ runner }) => end(runner, 'SIGKILL'),
  'both are killed': ({ host, runner }) => {
    end(runner, 'SIGKILL')
    end(host, 'SIGKILL')
  },
  'its AgentHost receives SIGTERM': ({ host }) => end(host, 'SIGTERM'),
  'both receive SIGTERM': ({ host, runner }) => {
    end(runner, 'SIGTERM')
    end(host, 'SIGTERM')
  },
}

/**
 * Moments around the configuration and around the first turn, when a sandbox receives the most requests. `test:chaos`
 * ends sandboxes at random moments.
 */
const MOMENTS: readonly (readonly [after: RunEventType, ms: number])[] = [
  ['sandbox.execution_pod.bound', 0],
  ['sandbox.execution_pod.bound', 25],
  ['run.started', 0],
  ['run.started', 10],
]
/** Long enough that no command ends before its sandbox dies. */
const STEPS = Array.from({ length: 200 }, () => shell('sleep 0.01'))

it.each(Object.keys(DEATHS))('loses its sandbox and nothing else, at any moment, when %s', async (how) => {
  const { service, store, aWorkspace } = use()
  const ends: string[] = []
  for (const [after, ms] of MOMENTS) {
    const run = await service.startRun(alice, aRun(aWorkspace(), STEPS))
    let isDead = false
    const events = await follow(service, run.id, async ({ type }) => {
      // It would continue in another sandbox.
      if (type === 'run.interrupted') await service.cancel(alice, run.id)
      if (type !== after || isDead) return
      isDead = true
      const claim = (await store.listClaims(['bound'])).find(({ runId }) => runId === run.id)
      const { pid: host } = claim!.handle as { pid: number }
      const pids = { host, runner: runnerOf(host) }
      await delay(ms)
      DEATHS[how]!(pids)
    })
    const [interrupted] = dataOf(events, 'run.interrupted')
    const isLoss = interrupted?.code === 'sandbox_lost'
    ends.push(isLoss ? 'sandbox_lost' : `${after} + ${ms} ms: ${JSON.stringify(events.slice(-3))}`)
  }

  expect(ends).toEqual(MOMENTS.map(() => 'sandbox_lost'))
  await until('no sandbox is left', async () => (await store.listClaims(['bound', 'requested'])).length === 0)
})
