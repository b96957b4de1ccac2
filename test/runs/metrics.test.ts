import { expect, it } from 'vitest'
import { RunState } from '../../contracts/api.ts'
import { renderMetrics } from '../../runtime/api/runs/reads/metrics.ts'
import { ReaperFigures } from '../../runtime/api/runs/replicas/reaper.ts'
import type { Store } from '../../runtime/store/store.ts'

const RUNS = 3
const store = { countRuns: async () => RUNS } as unknown as Store

/** The samples and types of a page, without the HELP texts and the size of this process. */
const essence = (text: string) =>
  text
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('# HELP'))
    .map((line) => line.replace(/^(process_resident_memory_bytes) \d+$/, '$1 SIZE'))

const TYPES = [
  '# TYPE agentweaver_runs gauge',
  ...RunState.options.map((state) => `agentweaver_runs{state="${state}"} ${RUNS}`),
  '# TYPE agentweaver_places_taken gauge',
  'agentweaver_places_taken 2',
  '# TYPE agentweaver_reaped_claims_total counter',
  'agentweaver_reaped_claims_total 5',
  '# TYPE agentweaver_reap_failures_total counter',
  'agentweaver_reap_failures_total 1',
]
const MEMORY = ['# TYPE process_resident_memory_bytes gauge', 'process_resident_memory_bytes SIZE']

function figures(lookedAt?: Date): ReaperFigures {
  const reaper = new ReaperFigures()
  return Object.assign(reaper, { reaped: 5, failed: 1, ...(lookedAt && { lookedAt }) })
}

it('has every metric with its documented name, type and labels, and a HELP text for each', async () => {
  const text = await renderMetrics({ store, active: { taken: 2 }, reaper: figures(new Date(1_500)) })

  expect(essence(text)).toEqual([
    ...TYPES,
    '# TYPE agentweaver_reaper_last_round_timestamp_seconds gauge',
    'agentweaver_reaper_last_round_timestamp_seconds 1.5',
    ...MEMORY,
  ])
  expect(text.match(/^# HELP \S+ \S/gm)).toHaveLength(6)
})

it('has no time of the last round before the first round', async () => {
  const text = await renderMetrics({ store, active: { taken: 2 }, reaper: figures() })

  expect(essence(text)).toEqual([...TYPES, ...MEMORY])
})

it('starts each scrape with fresh values', async () => {
  const parts = { store, active: { taken: 2 }, reaper: figures() }

  const pages = [await renderMetrics(parts), await renderMetrics(parts)]

  expect(essence(pages[1] ?? '')).toEqual(essence(pages[0] ?? ''))
})
