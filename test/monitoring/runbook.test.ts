import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { runbookSection } from '../../contracts/alert-rule.ts'
import { ErrorCode } from '../../contracts/errors.ts'
import { platformAlerts } from '../../infra/model/alerts.ts'

const PAGE = readFileSync('docs/operations.md', 'utf8')
const [, RUNBOOK = ''] = PAGE.split(/^## Runbook$/m)
const [, FAULTS = ''] = PAGE.split(/^## When parts fail$/m)

/** Title and text of each section of the runbook. */
const SECTIONS = new Map(
  RUNBOOK.split(/^### /m)
    .slice(1)
    .map((section) => {
      const [title = '', ...text] = section.split('\n')
      return [title, text.join('\n')] as const
    }),
)
const ALERTS = platformAlerts('proxy')

const SOURCES = readdirSync('runtime', { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts'))
  .map((name) => readFileSync(join('runtime', name), 'utf8'))
  .join('\n')

describe.each(ALERTS)('$alert', ({ alert, annotations }) => {
  it('names its section of the runbook', () => {
    const [page, anchor] = annotations.runbook_url.split('#')
    const titles = [...SECTIONS.keys()].map((title) => title.toLowerCase())

    expect(page).toMatch(/^https:\/\/.*\/docs\/operations\.md$/)
    expect(titles).toContain(anchor)
  })

  it('has a section with its meaning, what users notice, what to look at and what to do', () => {
    const text = SECTIONS.get(runbookSection(alert)) ?? ''

    for (const part of ['Means', 'Users notice', 'Look at', 'Do'])
      expect(text, part).toMatch(new RegExp(`^- \\*\\*${part}:\\*\\* \\S`, 'm'))
    expect(text, 'a command or a metric to look at').toMatch(/\*\*Look at:\*\*[^*]*`/)
  })
})

it('has no section without an alert', () => {
  const known = new Set(ALERTS.map(({ alert }) => runbookSection(alert)))

  expect([...SECTIONS.keys()].filter((title) => !known.has(title))).toEqual([])
})

it('names an alert for each fault that a metric can show, and only alerts that exist', () => {
  const rows = (FAULTS.split('## Runbook')[0] ?? '').match(/^\| (?!fault|---).*$/gm) ?? []
  const named = [...FAULTS.matchAll(/\(#(agentweaver[a-z]+)\)/g)].map(([, anchor = '']) => anchor)
  const anchors = ALERTS.map(({ annotations }) => annotations.runbook_url.split('#')[1])

  expect(rows).toHaveLength(8)
  expect(rows.filter((row) => !row.includes('(#agentweaver'))).toEqual([
    expect.stringContaining('none: no collector reads a laptop'),
  ])
  expect(named.filter((anchor) => !anchors.includes(anchor))).toEqual([])
})

it('quotes messages that the service logs', () => {
  const quoted = [...RUNBOOK.replaceAll(/\n {2}/g, ' ').matchAll(/for `([a-z][^`]+)`/g)].map(
    ([, text = '']) => text,
  )

  expect(quoted.length).toBeGreaterThan(2)
  expect(quoted.filter((text) => !SOURCES.includes(text))).toEqual([])
})

it('selects failure codes that exist', () => {
  const codes = ALERTS.flatMap(({ expr }) => [...expr.matchAll(/code=~?"([^"]+)"/g)]).flatMap(
    ([, list = '']) => list.split('|'),
  )

  expect(codes.length).toBeGreaterThan(2)
  expect(codes.filter((code) => !ErrorCode.options.some((known) => known === code))).toEqual([])
})
