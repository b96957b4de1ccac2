import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'

const PAGES = readdirSync('docs').filter((name) => name.endsWith('.md'))
const read = (page: string) => readFileSync(`docs/${page}`, 'utf8')

/** The folder that pages abbreviate as `…`. */
const KIT = 'test/conformance/agent-host-cases'

/** Files, folders and patterns below `test/` that a text names. */
const namedIn = (text: string): string[] =>
  [...text.matchAll(/`((?:test|…)\/[\w./*-]+)`/g)].map(([, path = '']) => path.replace('…', KIT))

const isThere = (path: string): boolean => (path.includes('*') ? globSync(path).length > 0 : existsSync(path))

/** The rows of tables whose last column names tests. */
function promises(page: string): string[] {
  const rows: string[] = []
  let isPromises = false
  for (const line of read(page).split('\n')) {
    if (!line.startsWith('|')) isPromises = false
    else if (/\| test \|$/.test(line)) isPromises = true
    else if (isPromises && !/^\|[-|]+$/.test(line)) rows.push(line)
  }
  return rows
}

it.each(PAGES)('every test that %s names exists', (page) => {
  expect(namedIn(read(page)).filter((path) => !isThere(path))).toEqual([])
})

describe.each(['agent-host.md', 'claims.md', 'credentials.md', 'identity.md'])(
  'the promises of %s',
  (page) => {
    it('each name a test', () => {
      expect(promises(page).length).toBeGreaterThan(5)
      expect(promises(page).filter((row) => namedIn(row).length === 0)).toEqual([])
    })
  },
)

it('detects a test that does not exist', () => {
  expect(namedIn('| a promise | `test/nowhere.test.ts`, `…/tickets.ts` |').map(isThere)).toEqual([
    false,
    true,
  ])
})
