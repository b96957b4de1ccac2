import { ADMISSION_POLICIES } from '../../policies/admission/policies.ts'
import type { Matched } from '../../policies/admission/rule.ts'
import { ESCAPE_PRECONDITIONS } from './escape-preconditions.ts'
import {
  NEUTRAL_CLAIM_MUTANTS,
  NEUTRAL_POD_MUTANTS,
  NEUTRAL_RUNNING_MUTANTS,
  NEUTRAL_STANDING_MUTANTS,
  NEUTRAL_TEMPLATE_MUTANTS,
  type Neutral,
} from './neutral-mutants.ts'

/** The generated tables of docs/admission.md, keyed by the name in their marker comment. */
export function tables(): Readonly<Record<string, string>> {
  return {
    policies: policyTable(),
    rules: ruleTable(),
    escapes: escapeTable(),
    neutral: neutralTable(),
  }
}

/** Replaces every generated table in the page. */
export function withTables(page: string): string {
  return Object.entries(tables()).reduce((text, [name, table]) => {
    const [opening, closing] = [`<!-- ${name} -->`, `<!-- /${name} -->`]
    const [start, end] = [text.indexOf(opening), text.indexOf(closing)]
    if (start < 0 || end < start)
      throw new Error(`docs/admission.md has no section between <!-- ${name} --> and <!-- /${name} -->`)
    return `${text.slice(0, start + opening.length)}\n${table}\n${text.slice(end)}`
  }, page)
}

const SCOPES = {
  sandboxes: 'sandbox namespaces',
  slice: 'all namespaces of a slice',
  cluster: 'the cluster',
} as const

function policyTable(): string {
  const rows = ADMISSION_POLICIES.map(({ name, scope, matches, rules }) => [
    `\`agentweaver-${name}\``,
    SCOPES[scope],
    matches.map(spell).join('; '),
    String(rules.length),
  ])
  return table(['policy', 'scope', 'requests', 'rules'], rows)
}

function spell({ resources, operations }: Matched): string {
  return `${operations.join(', ')} of ${resources.map((name) => `\`${name}\``).join(', ')}`
}

function ruleTable(): string {
  const rows = ADMISSION_POLICIES.flatMap(({ rules }) =>
    rules.map(({ name, message, risk }) => [`\`${name}\``, message, risk]),
  )
  return table(['rule', 'message', 'without the rule'], rows)
}

function escapeTable(): string {
  const rows = ESCAPE_PRECONDITIONS.map(({ id, needs, rules, control }) => [
    `\`${id}\``,
    needs,
    rules.map((rule) => `\`${rule}\``).join(', '),
    control ?? '–',
  ])
  return table(['escape', 'needs', 'rejected by', 'other defence'], rows)
}

function neutralTable(): string {
  const rows = (kind: string, neutrals: readonly Neutral[]) =>
    neutrals.map(({ fields, why }) => [kind, fields, why])
  return table(
    ['object', 'change that passes', 'why it is safe'],
    [
      ...rows('new pod', NEUTRAL_POD_MUTANTS),
      ...rows('running pod', NEUTRAL_RUNNING_MUTANTS),
      ...rows('new claim', NEUTRAL_CLAIM_MUTANTS),
      ...rows('existing claim', NEUTRAL_STANDING_MUTANTS),
      ...rows('template', NEUTRAL_TEMPLATE_MUTANTS),
    ],
  )
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
  return [line(head), `|${head.map(() => '---').join('|')}|`, ...rows.map(line)].join('\n')
}
