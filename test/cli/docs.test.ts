import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { EXIT } from '../../cli/exit-status.ts'
import { buildProgram } from '../../cli/program.ts'
import { createTerminal } from '../../cli/terminal/terminal.ts'

const ROOT = join(import.meta.dirname, '../..')
const read = (file: string) => readFile(join(ROOT, file), 'utf8')
const PAGES = [
  'README.md',
  'CONTRIBUTING.md',
  'AGENTS.md',
  'docs/README.md',
  'docs/getting-started.md',
  'docs/runs.md',
  'docs/egress.md',
  'docs/placeholders.md',
  'docs/restrictions.md',
  'docs/teams.md',
  'docs/audit.md',
  'docs/capacity.md',
  'docs/operations.md',
  'docs/infra.md',
  'cli/README.md',
]

const { stdin, stdout, stderr } = process
const terminal = createTerminal({ stdin, stdout, stderr, env: {}, cwd: ROOT })
const program = buildProgram({ terminal, exit: () => undefined }, '0')

/** The command of a line, and the long options that it uses. */
function parseLine(line: string) {
  const [name = '', second = ''] = line.trim().split(/\s+/)
  const command = program.commands.find((candidate) => candidate.name() === name)
  const child = command?.commands.find((candidate) => candidate.name() === second)
  const options = [...(line.split(' -- ')[0]?.matchAll(/\s(--[a-z-]+)/g) ?? [])].map(
    ([, option]) => option ?? '',
  )
  return { command: child ?? command, options: options.filter((option) => option !== '--help') }
}

describe.each(PAGES)('%s', (page) => {
  test('names only files that exist', async () => {
    const text = await read(page)
    const links = [...text.matchAll(/\]\(([^)#:]+)\)/g)].map(([, link]) => join(page, '..', link ?? ''))
    const paths = [...text.matchAll(/`((?:test|cli|docs|tools|infra|runtime|\.ci)\/[\w./-]+\.\w+)`/g)].map(
      ([, path]) => path ?? '',
    )

    expect([...links, ...paths].filter((path) => !existsSync(join(ROOT, path)))).toEqual([])
  })

  test('names only npm scripts that exist', async () => {
    const { scripts } = JSON.parse(await read('package.json'))
    const named = [...(await read(page)).matchAll(/npm run ([a-z:]+)/g)].map(([, script]) => script ?? '')

    expect(named.filter((script) => !(script in scripts))).toEqual([])
  })

  test('shows only commands and options that the command line has', async () => {
    const lines = [...(await read(page)).matchAll(/(?:npx |`|^)agentweaver ([a-z][^`\n]*)/gm)].map(
      ([, line]) => line ?? '',
    )
    const wrong = lines.filter((line) => {
      const { command, options } = parseLine(line)
      return !command || options.some((name) => !command.options.some(({ long }) => long === name))
    })

    expect(wrong).toEqual([])
  })
})

test('the index of the documentation lists every page', async () => {
  const index = await read('docs/README.md')
  const pages = (await readdir(join(ROOT, 'docs'))).filter(
    (name) => name.endsWith('.md') && name !== 'README.md',
  )

  expect(pages.filter((name) => !index.includes(`](${name})`))).toEqual([])
})

test('the table of exit statuses is complete', async () => {
  const page = await read('docs/getting-started.md')
  const listed = [...page.matchAll(/^\| (\d+) \|/gm)].map(([, status]) => Number(status))

  expect(listed).toEqual(Object.values(EXIT))
})
