import { EventLoopMonitor } from '../../metrics/event-loop-lag.ts'
import type { RunDeps } from '../deps.ts'
import type { ActiveRuns } from '../drive/active-runs.ts'
import type { ReaperFigures } from '../replicas/reaper.ts'
import type { RunService } from '../service.ts'
import { readDiagnostics } from './diagnostics.ts'
import { renderMetrics } from './metrics.ts'
import { readOperations } from './operations.ts'

type Parts = Parameters<typeof readDiagnostics>[0] &
  Pick<RunDeps, 'metrics'> & {
    readonly active: Pick<ActiveRuns, 'taken'>
    readonly reaper: Readonly<ReaperFigures>
  }

/** What operators and their tools watch. */
export function createOperationReads(parts: Parts): Pick<RunService, 'metrics' | 'readDiagnostics'> {
  const { active, reaper, metrics } = parts
  const eventLoop = new EventLoopMonitor()
  return {
    readDiagnostics: (caller) => readDiagnostics(parts, caller),
    async metrics() {
      const operations = await readOperations(parts).catch(() => undefined)
      return renderMetrics({ operations, active, reaper, eventLoop, metrics })
    },
  }
}
