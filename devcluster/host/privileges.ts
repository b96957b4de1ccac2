import { spawnSync } from 'node:child_process'
import type { ClusterOptions } from '../cluster-options.ts'
import { HarnessError } from '../harness-error.ts'
import { hasVersionOneControllers } from './cgroups.ts'

const WITHOUT =
  'What works without: the control plane, the controller and fake nodes (`npm run cluster -- up --kwok 1`)'

interface Check {
  readonly what: string
  readonly holds: () => boolean
}

/** In order: each check depends on the one before it. */
const CHECKS: readonly Check[] = [
  { what: 'a real node needs root', holds: () => process.getuid?.() === 0 },
  { what: 'a real node needs namespaces, and `unshare` is refused here', holds: canUnshare },
  {
    what: 'a real node needs version 1 control groups with a memory controller, and this machine has none',
    holds: hasVersionOneControllers,
  },
]

function canUnshare(): boolean {
  const flags = ['--net', '--mount', '--pid', '--cgroup', '--uts', '--ipc', '--fork', '--mount-proc']
  return spawnSync('unshare', [...flags, '--', 'true'], { timeout: 5_000, stdio: 'ignore' }).status === 0
}

/** One line that explains why real nodes cannot run here, and which features can. Undefined if real nodes can run. */
export function whyNoNodes(checks: readonly Check[] = CHECKS): string | undefined {
  const failed = checks.find(({ holds }) => !holds())
  return failed && `${failed.what}. ${WITHOUT}`
}

export function requirePrivileges({ nodes }: ClusterOptions): void {
  const reason = nodes > 0 ? whyNoNodes() : undefined
  if (reason) throw new HarnessError(reason)
}
