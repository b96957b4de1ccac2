import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { TRUST_VARIABLES } from '../../policies/agent/egress/trust-table.ts'
import { CLIENTS, INSTALLED_CLIENTS } from './client-table.ts'

const page = readFileSync(new URL('../../docs/egress.md', import.meta.url), 'utf8')

/** The generated tables of docs/egress.md, by their mark. */
const TABLES: Readonly<Record<string, string>> = {
  variables: table(
    ['variable', 'read by'],
    TRUST_VARIABLES.map(({ name, programs }) => [`\`${name}\``, programs]),
  ),
  clients: table(
    ['client', 'what the entry allows', 'what it does not allow'],
    [...CLIENTS, ...INSTALLED_CLIENTS].map(({ name, prints }) => [
      name,
      'works',
      `refused; the client prints ${prints}`,
    ]),
  ),
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  return [line(head), `|${'---|'.repeat(head.length)}`, ...rows.map(line)].join('\n')
}

it.each(Object.entries(TABLES))('docs/egress.md has the table of %s as it is generated', (mark, expected) => {
  const found = new RegExp(`<!-- generated: ${mark} -->\\n([\\s\\S]*?)\\n?<!-- end -->`).exec(page)?.[1]

  expect(found).toBe(expected)
})
