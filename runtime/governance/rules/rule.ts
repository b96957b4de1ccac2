import type { SandboxSettings } from '../../../contracts/policy.ts'
import type { AgentPolicy } from '../../../policies/agent/load.ts'
import type { RunFacts, ToolRequest } from '../request.ts'
import type { ShellJudgement } from '../shell/judge.ts'

/** Input of every rule. */
export interface RuleContext {
  readonly request: ToolRequest
  readonly facts: RunFacts
  readonly policy: AgentPolicy
  readonly settings: SandboxSettings
  /** The arguments after validation against the tool's schema. Empty while `tool-by-name` runs. */
  readonly parsed: Readonly<Record<string, unknown>>
  /** The analysis of a `run_command`; undefined for every other tool. Computed on the first call. */
  readonly judgement: () => ShellJudgement | undefined
}

/** The result of a rule: undefined (no objection), or a verdict with its reason. */
export type Finding =
  | undefined
  | { readonly verdict: 'deny'; readonly reason: string }
  | { readonly verdict: 'ask'; readonly reason: string; readonly matched: readonly string[] }

export interface Rule {
  readonly name: string
  judge(context: RuleContext): Finding
}

export const deny = (reason: string): Finding => ({ verdict: 'deny', reason })
