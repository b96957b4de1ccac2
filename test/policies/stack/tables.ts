import { STACK_RULES } from '../../../policies/stack/rules.ts'
import { MUTANTS } from './mutants.ts'

const [OPENING, CLOSING] = ['<!-- rules -->', '<!-- /rules -->']

/** Returns the page with an updated table of rules. */
export function withRules(page: string): string {
  const [start, end] = [page.indexOf(OPENING), page.indexOf(CLOSING)]
  if (start < 0 || end < start) throw new Error('docs/stack-policy.md has no section for the rules')
  return `${page.slice(0, start + OPENING.length)}\n${table()}\n${page.slice(end)}`
}

function table(): string {
  const rows = STACK_RULES.map(({ number, name, level, requires, reason, resource, stack, planOnly }) => {
    const seen = [resource && 'resource', stack && 'stack'].filter(Boolean).join(', ')
    const weakenings = MUTANTS.filter((mutant) => mutant.rule === name).length
    const strength = level === 'mandatory' ? 'M' : 'A'
    return [
      String(number),
      `\`${name}\``,
      strength,
      planOnly ? 'plan' : seen,
      requires,
      reason,
      String(weakenings),
    ]
  })
  const head = ['', 'rule', '', 'checks', 'requires', 'because', 'tested violations']
  return [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n')
}
