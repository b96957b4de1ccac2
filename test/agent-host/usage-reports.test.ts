import { expect, it } from 'vitest'
import type { HostEvent } from '../../contracts/events.ts'
import type { WorkspaceUsage } from '../../contracts/exec.ts'
import { usageReports } from '../../runtime/agent-host/session/usage-reports.ts'

const aUsage = (level: WorkspaceUsage['level']): WorkspaceUsage => ({
  ...{ level, bytes: level, files: 1, maxBytes: 100, maxFiles: 100, isComplete: true },
})

function reports() {
  const events: HostEvent[] = []
  return { events, report: usageReports({ emit: async (event) => void events.push(event) }) }
}

it('emits one event if both runners of a pod report the same level', () => {
  const { events, report } = reports()

  for (const level of [50, 50, 80, 80, 0, 0] as const) report(aUsage(level))

  expect(events).toEqual(
    ([50, 80, 0] as const).map((level) => ({ type: 'workspace.usage', data: aUsage(level) })),
  )
})

it('emits a bounded number of events, however many a runner sends', () => {
  const { events, report } = reports()

  for (let round = 0; round < 10_000; round++) report(aUsage(round % 2 === 0 ? 95 : 0))

  expect(events).toHaveLength(200)
})
