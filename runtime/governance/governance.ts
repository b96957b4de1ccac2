import type { Decision, SandboxSettings } from '../../contracts/policy.ts'
import { type CommandPattern, parseCommandPattern } from '../../policies/agent/command-pattern.ts'
import type { AgentPolicy } from '../../policies/agent/load.ts'
import { messageOf, SandboxError } from '../kit/errors.ts'
import type { Log } from '../kit/log.ts'
import type { RunFacts, ToolRequest } from './request.ts'
import { RULES } from './rules/all.ts'
import { parseArguments } from './rules/arguments.ts'
import type { Finding, Rule, RuleContext } from './rules/rule.ts'
import { toolByName } from './rules/tool-by-name.ts'
import type { ShellGrammar } from './shell/grammar.ts'
import { judgeShell, type PatternSets, type ShellJudgement } from './shell/judge.ts'
import { createPatternSet } from './shell/match.ts'

export interface GovernanceOptions {
  readonly policy: AgentPolicy
  readonly settings: SandboxSettings
  readonly shell: ShellGrammar
  /** Receives errors thrown by rules. Its lines are redacted, because an error message may repeat an argument. */
  readonly log: Log
  /** @default the rules of `rules/all.ts` */
  readonly rules?: readonly Rule[]
}

export interface Governance {
  /** Returns a decision for every request. An error inside a rule is a `deny`. */
  decide(request: ToolRequest, facts: RunFacts): Decision
}

/**
 * Creates the decision function of one run. Throws `invalid_config` if a command pattern in the settings is
 * malformed.
 */
export function createGovernance(options: GovernanceOptions): Governance {
  const { policy, settings, shell, log, rules = RULES } = options
  const sets = patternSets(policy, settings)
  return {
    decide: (request, facts) => {
      try {
        const byName = toolByName.judge({ ...bare(options), request, facts })
        if (byName) return refusal(toolByName.name, byName)
        const read = parseArguments(request)
        if (!read.ok) return refusal('arguments', read.finding)
        const judgement = judgeOnce(request, read.parsed, (command) =>
          judgeShell(command, { grammar: shell, sets, shell: facts.shell }),
        )
        return decideBy(rules, { request, facts, policy, settings, parsed: read.parsed, judgement, log })
      } catch (error) {
        logThrown(log, request, { rule: 'governance', error })
        return denied('governance', 'the policy could not be evaluated')
      }
    },
  }
}

const bare = ({ policy, settings }: GovernanceOptions) => ({
  policy,
  settings,
  parsed: {},
  judgement: () => undefined,
})

/** Longest error message that is logged, in characters. */
const MAX_THROWN = 500

/** An error inside a rule is a bug in this project. The log names the rule, the error and its first stack frame. */
function logThrown(log: Log, { tool }: ToolRequest, { rule, error }: { rule: string; error: unknown }): void {
  const [at] = /^ +at .*$/m.exec((error instanceof Error && error.stack) || '') ?? []
  const thrown = messageOf(error).slice(0, MAX_THROWN)
  log.error('a policy rule threw an error, so the call is denied', { rule, tool, thrown, at: at?.trim() })
}

function decideBy(
  rules: readonly Rule[],
  { log, ...context }: RuleContext & { readonly log: Log },
): Decision {
  const asks: { rule: string; reason: string; matched: readonly string[] }[] = []
  for (const rule of rules) {
    const finding = judgeSafely(rule, context, log)
    if (finding?.verdict === 'deny') return refusal(rule.name, finding)
    if (finding) asks.push({ rule: rule.name, reason: finding.reason, matched: finding.matched })
  }
  const [first] = asks
  if (!first) return { verdict: 'allow', rule: 'default', reasons: [], matched: [] }
  return {
    verdict: 'ask',
    rule: first.rule,
    reasons: asks.map(({ reason }) => reason),
    matched: asks.flatMap(({ matched }) => matched),
  }
}

function judgeSafely(rule: Rule, context: RuleContext, log: Log): Finding {
  try {
    return rule.judge(context)
  } catch (error) {
    logThrown(log, context.request, { rule: rule.name, error })
    return { verdict: 'deny', reason: 'the rule failed' }
  }
}

const denied = (rule: string, reason: string): Decision => ({
  verdict: 'deny',
  rule,
  reasons: [reason],
  matched: [],
})

const refusal = (rule: string, finding: Finding): Decision => denied(rule, finding?.reason ?? 'refused')

/** Parses the command at most once per decision, and only when a rule needs it. */
function judgeOnce(
  { tool }: ToolRequest,
  parsed: Readonly<Record<string, unknown>>,
  judge: (command: string) => ShellJudgement,
): () => ShellJudgement | undefined {
  let done: ShellJudgement | undefined
  return () => {
    if (tool !== 'run_command') return undefined
    done ??= judge(String(parsed['command']))
    return done
  }
}

function patternSets(policy: AgentPolicy, settings: SandboxSettings): PatternSets {
  const own = settings.destructive_command_patterns.map((text): CommandPattern => {
    const parsed = parseCommandPattern(text)
    if (parsed.ok) return parsed.pattern
    throw new SandboxError('invalid_config', `destructive_command_patterns: "${text}" ${parsed.reason}`)
  })
  return {
    destructive: createPatternSet([...policy.destructive.flatMap(({ match }) => match), ...own]),
    network: createPatternSet(policy.network),
    plain: createPatternSet(policy.plainOutput, 'possible'),
    filters: createPatternSet(policy.filters, 'possible'),
  }
}
