import { expect, it } from 'vitest'
import type { EgressReport } from '../../contracts/egress.ts'
import { Ledger } from '../../runtime/egress/ledger.ts'
import { EGRESS_LIMITS } from '../../runtime/egress/limits.ts'

function rig(limits = {}) {
  const reports: EgressReport[] = []
  const clock = { now: 0 }
  const ledger = new Ledger({
    runId: 'run',
    generation: 1,
    limits: { ...EGRESS_LIMITS, ...limits },
    report: (report) => reports.push(report),
    now: () => clock.now,
  })
  const refuse = (host: string) =>
    ledger.refuse({ host, port: 443, rule: 'not-listed', reason: 'r', remedy: 'm' }, 'work')
  const told = () =>
    reports.flatMap((report) =>
      report.type === 'denied' ? [`${report.data.host} ${report.data.count}`] : [],
    )
  return { ledger, reports, clock, refuse, told }
}

it('reports the first refusal at once, and repeats with their number', () => {
  const { ledger, clock, refuse, told } = rig()
  refuse('a')
  for (let index = 0; index < 1000; index++) refuse('a')
  expect(told()).toEqual(['a 1'])

  ledger.flush()
  expect(told()).toEqual(['a 1'])

  clock.now += EGRESS_LIMITS.repeatMs
  ledger.flush()
  expect(told()).toEqual(['a 1', 'a 1000'])
})

it('counts refusals of many different hosts together', () => {
  const { ledger, refuse, told } = rig({ reportedRefusals: 3 })
  for (let index = 0; index < 100; index++) refuse(`host-${index}`)
  ledger.close()

  expect(told()).toEqual(['host-0 1', 'host-1 1', 'host-2 1', 'other hosts 1', 'other hosts 96'])
})

it('reports the sums per host at the end, for a bounded number of hosts', () => {
  const { ledger, reports, refuse } = rig({ summaryHosts: 2 })
  const traffic = { host: 'a', port: 443, phase: 'work', sentBytes: 10, receivedBytes: 20 } as const
  ledger.ended(traffic)
  ledger.ended(traffic)
  refuse('b')
  refuse('c')
  ledger.close()

  expect(reports.at(-1)).toMatchObject({
    type: 'summary',
    data: {
      hosts: [
        { host: 'a', connections: 2, sentBytes: 20, receivedBytes: 40, denied: 0 },
        { host: 'b', connections: 0, denied: 1 },
      ],
      omitted: 1,
    },
  })
})

it('reports repeats at intervals that double', () => {
  const { ledger, clock, refuse, told } = rig({ repeatMs: 10, longestRepeatMs: 40 })
  const times: number[] = []
  for (clock.now = 0; clock.now <= 200; clock.now += 1) {
    const before = told().length
    refuse('a')
    ledger.flush()
    if (told().length > before) times.push(clock.now)
  }

  expect(times).toEqual([0, 10, 30, 70, 110, 150, 190])
})

it('reports a bounded number of refusals in an hour, says so in the last one, and counts all of them', () => {
  const { ledger, clock, reports, refuse, told } = rig({ refusalReportsPerHour: 3 })
  for (let index = 0; index < 10; index++) refuse(`host-${index}`)

  expect(told()).toEqual(['host-0 1', 'host-1 1', 'other hosts 1'])
  expect(reports.at(-1)).toMatchObject({ data: { reason: expect.stringContaining('only counted') } })
  clock.now += 3_600_000
  refuse('later')
  expect(told().at(-1)).toBe('later 1')
  ledger.close()
  expect(reports.at(-1)).toMatchObject({ type: 'summary', data: { hosts: { length: 11 } } })
})

it('reports nothing after its end: a look-up may end later than its sandbox', () => {
  const { ledger, reports, refuse } = rig()
  refuse('a')
  ledger.close()
  const before = reports.length

  refuse('b')

  expect(reports).toHaveLength(before)
})
