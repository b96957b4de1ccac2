import { expect, it } from 'vitest'
import type { HostEvent } from '../../contracts/events.ts'
import type { RunDeps } from '../../runtime/api/runs/deps.ts'
import { createTouchTracker } from '../../runtime/governance/touched.ts'
import type { RunTouched } from '../../runtime/store/store.ts'
import { startCommitterRig } from './committer-rig.ts'

const read = (callId: string, path: string): HostEvent => ({
  type: 'tool.call',
  data: { callId, tool: 'read_file', request: { path }, verdict: 'allow', reasons: [] },
})

/** Governance with the real tracker. `starts` has the state with which each driver begins. */
function watched() {
  const starts: RunTouched[] = []
  const governance: RunDeps['governance'] = {
    version: () => 'p1',
    forRun: (_settings, before) => {
      starts.push(before)
      const tracker = createTouchTracker({ secretFiles: { match: ['.env'], except: [] } }, before)
      return {
        decide: () => ({ verdict: 'allow', rule: 'test', reasons: [], matched: [] }),
        observe: (call, content) => tracker.observe(call, content),
        get touched() {
          return tracker.touched
        },
      }
    },
  }
  return { starts, governance }
}

it('the next driver of a run knows that the run has read a secret file, without its events', async () => {
  const { store, runId, driver } = await startCommitterRig()
  const { starts, governance } = watched()
  const { committer } = await driver({ governance })
  const sent = (sequence: number, event: HostEvent) =>
    committer.commit({ runId, generation: 1, envelopes: [{ sequence, at: new Date().toISOString(), event }] })

  await sent(1, read('a', 'readme.md'))
  await driver({ governance })
  await sent(2, read('b', '.env'))
  await driver({ governance })
  await store.transaction((tx) => tx.changeRun(runId, { touched: { secret: false } }))
  await driver({ governance })

  expect(starts).toEqual([{ secret: false }, { secret: false }, { secret: true }, { secret: true }])
})
