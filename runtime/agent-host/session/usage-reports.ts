import type { WorkspaceUsage } from '../../../contracts/exec.ts'
import type { Outbox } from '../outbox.ts'

/** Events of one sandbox. The runner is less trusted and reports less. */
const MAX_EVENTS = 200

/** Emits the reports of the runners. In a pod, two runners report the use of the same workspace. */
export function usageReports(outbox: Pick<Outbox, 'emit'>): (usage: WorkspaceUsage) => void {
  let level: WorkspaceUsage['level'] = 0
  let events = 0
  return (usage) => {
    if (usage.level === level || events >= MAX_EVENTS) return
    level = usage.level
    events += 1
    void outbox.emit({ type: 'workspace.usage', data: usage })
  }
}
