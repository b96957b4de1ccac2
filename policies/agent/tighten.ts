import { BUDGET_KINDS, type Budgets } from '../../contracts/budgets.ts'
import type { PushRule, SandboxSettings, SandboxSettingsPatch } from '../../contracts/policy.ts'
import { hasHost, intersectHosts } from './egress/narrow.ts'

/**
 * Applies patches to the ceiling. A patch can only tighten the settings; a value beyond the ceiling stays at the
 * ceiling, and `widenings` reports it. `direct` always has the ceiling's value. Setup commands are no limit: those of the last
 * patch that has some count, unless earlier settings turn them off.
 */
export function tighten(ceiling: SandboxSettings, ...patches: SandboxSettingsPatch[]): SandboxSettings {
  return patches.reduce<SandboxSettings>(
    (settings, patch) => ({
      shell_enabled: settings.shell_enabled && patch.shell_enabled !== false,
      allowed_repository_roots: intersectRoots(
        settings.allowed_repository_roots,
        patch.allowed_repository_roots ?? settings.allowed_repository_roots,
      ),
      destructive_command_patterns: [
        ...new Set([...settings.destructive_command_patterns, ...(patch.destructive_command_patterns ?? [])]),
      ],
      require_approval_for_all_shell:
        settings.require_approval_for_all_shell || patch.require_approval_for_all_shell === true,
      redact_pii: settings.redact_pii || patch.redact_pii === true,
      ...smallerSizes(settings, patch),
      network_enabled: settings.network_enabled && patch.network_enabled !== false,
      ...egressHosts(settings.egress_hosts, patch.egress_hosts),
      ...requireOutcome(settings.require_outcome, patch.require_outcome),
      ...smallerBudgets(settings.budgets, patch.budgets),
      ...approvalRules(settings.approvals, patch.approvals),
      ...setupCommands(settings.setup_commands, patch.setup_commands),
      ...resultRules(settings.results, patch.results),
      direct: settings.direct,
    }),
    ceiling,
  )
}

/** True if one is true. Undefined if both are undefined: then the request of a run decides. */
function requireOutcome(...values: (boolean | undefined)[]): Pick<SandboxSettings, 'require_outcome'> {
  const given = values.filter((value) => value !== undefined)
  return given.length === 0 ? {} : { require_outcome: given.includes(true) }
}

/** Each rule is in force if one of the settings has it. */
function approvalRules(...given: SandboxSettings['approvals'][]): Pick<SandboxSettings, 'approvals'> {
  const rules = given.filter((value) => value !== undefined)
  return rules.length === 0 ? {} : { approvals: { not_by_owner: rules.some((rule) => rule.not_by_owner) } }
}

/** An empty list turns them off. */
function setupCommands(
  before: readonly string[] | undefined,
  wished: readonly string[] | undefined,
): Pick<SandboxSettings, 'setup_commands'> {
  const commands = before?.length === 0 ? before : (wished ?? before)
  return commands ? { setup_commands: [...commands] } : {}
}

/** From the widest to the strictest. */
const PUSH_RULES: readonly PushRule[] = ['allow', 'ask', 'deny']
const strictness = (rule: PushRule): number => PUSH_RULES.indexOf(rule)

/** Who may push the results of a run with these settings. */
export const pushRuleOf = ({ results }: Pick<SandboxSettings, 'results'>): PushRule => results?.push ?? 'ask'

/** The stricter rule. A patch without a rule leaves the ceiling's one. */
function resultRules(
  ceiling: SandboxSettings['results'],
  patch: SandboxSettings['results'],
): Pick<SandboxSettings, 'results'> {
  if (!patch) return ceiling ? { results: ceiling } : {}
  const rules = [pushRuleOf({ results: ceiling }), patch.push]
  const push = rules.reduce((one, other) => (strictness(one) > strictness(other) ? one : other))
  return { results: { push } }
}

/** The hosts of both lists. Without a list, there is no limit. */
function egressHosts(
  allowed: readonly string[] | undefined,
  wished: readonly string[] | undefined,
): Pick<SandboxSettings, 'egress_hosts'> {
  if (!allowed || !wished) {
    const only = allowed ?? wished
    return only ? { egress_hosts: [...only] } : {}
  }
  return { egress_hosts: intersectHosts(allowed, wished) }
}

const SIZES = ['max_output_bytes', 'max_workspace_bytes', 'max_workspace_files'] as const

/** The smaller value of each. */
function smallerSizes(settings: SandboxSettings, patch: SandboxSettingsPatch) {
  const smaller = (size: (typeof SIZES)[number]) => Math.min(settings[size], patch[size] ?? settings[size])
  return {
    max_output_bytes: smaller('max_output_bytes'),
    max_workspace_bytes: smaller('max_workspace_bytes'),
    max_workspace_files: smaller('max_workspace_files'),
  }
}

/** The smaller limit of each kind. */
function smallerBudgets(...given: (Budgets | undefined)[]): Pick<SandboxSettings, 'budgets'> {
  const limits = BUDGET_KINDS.flatMap((kind) => {
    const values = given.flatMap((budgets) => budgets?.[kind] ?? [])
    return values.length === 0 ? [] : [[kind, Math.min(...values)] as const]
  })
  return limits.length === 0 ? {} : { budgets: Object.fromEntries(limits) }
}

/** One requested setting that the ceiling does not allow. */
export interface Widening {
  readonly field: keyof SandboxSettingsPatch
  readonly message: string
}

type Check = (ceiling: SandboxSettings, patch: SandboxSettingsPatch) => Widening[]

const unless = (is: boolean, field: Widening['field'], message: string): Widening[] =>
  is ? [{ field, message }] : []

const CHECKS: readonly Check[] = [
  (c, p) => unless(p.shell_enabled === true && !c.shell_enabled, 'shell_enabled', 'the shell is off'),
  (c, p) =>
    unless(
      p.network_enabled === true && !c.network_enabled,
      'network_enabled',
      'the network is off; it needs network_enabled: true in AGENTWEAVER_CEILING_FILE, and no network_enabled: false in the settings of the folder',
    ),
  (c, p) =>
    (p.egress_hosts ?? []).flatMap((host) =>
      unless(
        c.egress_hosts !== undefined && !hasHost(c.egress_hosts, host),
        'egress_hosts',
        `${host} is not among the hosts that the settings allow: ${c.egress_hosts?.join(', ') || 'none'}`,
      ),
    ),
  (c, p) =>
    unless(
      p.require_approval_for_all_shell === false && c.require_approval_for_all_shell,
      'require_approval_for_all_shell',
      'every command needs an approval',
    ),
  (c, p) => unless(p.redact_pii === false && c.redact_pii, 'redact_pii', 'personal data is redacted'),
  (c, p) =>
    unless(
      p.require_outcome === false && c.require_outcome === true,
      'require_outcome',
      'the settings require that each run reports its outcome',
    ),
  (c, p) =>
    unless(
      p.approvals?.not_by_owner === false && c.approvals?.not_by_owner === true,
      'approvals',
      'the settings require that another person approves',
    ),
  (c, p) =>
    unless(
      c.setup_commands?.length === 0 && (p.setup_commands ?? []).length > 0,
      'setup_commands',
      'the settings turn setup commands off (setup_commands: [])',
    ),
  (c, p) =>
    unless(
      p.results !== undefined && strictness(p.results.push) < strictness(pushRuleOf(c)),
      'results',
      `push: the settings have ${pushRuleOf(c)}; allow needs results: {push: allow} in AGENTWEAVER_CEILING_FILE`,
    ),
  (c, p) =>
    BUDGET_KINDS.flatMap((kind) => {
      const allowed = c.budgets?.[kind] ?? Number.POSITIVE_INFINITY
      return unless((p.budgets?.[kind] ?? 0) > allowed, 'budgets', `${kind}: the settings allow ${allowed}`)
    }),
  (c, p) => SIZES.flatMap((size) => unless((p[size] ?? 0) > c[size], size, `the limit is ${c[size]}`)),
  (c, p) =>
    (p.allowed_repository_roots ?? []).flatMap((root) =>
      unless(
        !c.allowed_repository_roots.some((allowed) => contains(allowed, root)),
        'allowed_repository_roots',
        `${root} is not under an allowed root`,
      ),
    ),
]

/** Returns the settings that a patch requests beyond the ceiling and that are therefore not applied. */
export const widenings = (ceiling: SandboxSettings, patch: SandboxSettingsPatch): Widening[] =>
  CHECKS.flatMap((check) => check(ceiling, patch))

/** Returns the folders that are allowed by both lists. */
function intersectRoots(allowed: readonly string[], wished: readonly string[]): string[] {
  const both = allowed.flatMap((a) =>
    wished.flatMap((w) => {
      if (contains(a, w)) return [w]
      return contains(w, a) ? [a] : []
    }),
  )
  return [...new Set(both)]
}

/** Whether `inner` is `outer` or lies under it, segment by segment: `/srv/a-b` is not under `/srv/a`. */
function contains(outer: string, inner: string): boolean {
  const segments = (path: string) => path.split('/').filter((segment) => segment !== '' && segment !== '.')
  const o = segments(outer)
  const i = segments(inner)
  return o.length <= i.length && o.every((segment, index) => segment === i[index])
}
