import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { hostFault } from '../../policies/agent/egress/host.ts'
import { TABLES } from './tables.ts'

const page = readFileSync(new URL('../../docs/network.md', import.meta.url), 'utf8')
const between = (mark: string) =>
  new RegExp(`<!-- generated: ${mark} -->\\n([\\s\\S]*?)\\n?<!-- end -->`).exec(page)?.[1]

describe('docs/network.md', () => {
  it.each(Object.entries(TABLES))('has the table of %s as it is generated', (mark, table) => {
    expect(between(mark)).toBe(table())
  })

  it('has no other generated table', () => {
    const marks = [...page.matchAll(/<!-- generated: (\S+) -->/g)].map(([, mark]) => mark)

    expect(marks.toSorted()).toEqual(Object.keys(TABLES).toSorted())
  })

  const refusals = [...page.matchAll(/^\| `([^`]+)` \| (.+) \|$/gm)]
    .map(([, written = '', answer = '']) => [written, answer] as const)
    .filter(([, answer]) => answer.startsWith('"'))

  it.each(refusals)('shows what %s is answered', (written, answer) => {
    expect(hostFault(written)).toBe(answer)
  })

  it('shows several of them', () => {
    expect(refusals.length).toBeGreaterThan(4)
  })
})
