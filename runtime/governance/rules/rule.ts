import type { SandboxSettings } from '../../../contracts/policy.ts'
import type { AgentPolicy } from '../../../policies/agent/load.ts'
import type { RunFacts, ToolRequest } from '../request.ts'
import type { ShellJudgement } from '../shell/judge.ts'

/** What every rule may look at. */
export interface RuleContext {
  readonly request: ToolRequest
  readonly facts: RunFacts
  readonly policy: AgentPolicy
  readonly settings: SandboxSettings
  /** The arguments after the tool's schema; set from the rule `arguments` on. */
  readonly parsed: Readonly<Record<string, unknown>>
  /** What the text of a `run_command` shows; undefined for every other tool. Computed at the first call. */
  readonly judgement: () => ShellJudgement | undefined
}

/** A rule's word: nothing to say, or a verdict with its reason. */
export type Finding =
  | undefined
  | { readonly verdict: 'deny'; readonly reason: string }
  | { readonly verdict: 'ask'; readonly reason: string; readonly matched: readonly string[] }

export interface Rule {
  readonly name: string
  judge(context: RuleContext): Finding
}

export const deny = (reason: string): Finding => ({ verdict: 'deny', reason })
