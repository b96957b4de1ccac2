import { approvalForAll } from './approval-for-all.ts'
import { containedPaths } from './contained-paths.ts'
import { destructive } from './destructive.ts'
import { realIsolation } from './real-isolation.ts'
import type { Rule } from './rule.ts'
import { secretEgress } from './secret-egress.ts'
import { shellEnabled } from './shell-enabled.ts'
import { shellEnvelope } from './shell-envelope.ts'
import { unclearShell } from './unclear-shell.ts'

/**
 * All rules that judge parsed arguments, cheap rules first. The first `deny` wins; the reasons of all `ask`
 * findings are combined.
 */
export const RULES: readonly Rule[] = [
  containedPaths,
  shellEnabled,
  realIsolation,
  shellEnvelope,
  secretEgress,
  destructive,
  unclearShell,
  approvalForAll,
]
