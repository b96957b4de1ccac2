import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, it } from 'vitest'

const OUTSIDE = ['node_modules', '**/node_modules', 'gitops', '**/dist', '.git']
const filesOf = (pattern: string) => globSync(pattern, { exclude: OUTSIDE })

const PAGES = [
  'README.md',
  'AGENTS.md',
  'CONTRIBUTING.md',
  ...filesOf('docs/**/*.md'),
  ...filesOf('*/**/README.md'),
]

/** Paths of source files in backticks. Placeholders and packages are not paths of this repository. */
const namedIn = (text: string): string[] =>
  [...text.matchAll(/`([\w./-]+\.(?:ts|js|mjs|md|sh))`/g)]
    .map(([, path = '']) => path)
    .filter((path) => !/\bNAME\b|^x\./.test(path))

const TREE = ['', '.ci/', '.github/']
  .flatMap((folder) => filesOf(`${folder}**/*.{ts,js,mjs,md,sh}`))
  .map((path) => `/${path}`)

/** A path is relative to its page, or the end of a path of the repository: pages name files of a folder by their names. */
const isThere = (path: string, page: string): boolean =>
  existsSync(join(dirname(page), path)) || TREE.some((known) => known.endsWith(`/${path}`))

it.each([...new Set(PAGES)])('every source file that %s names exists', (page) => {
  const named = namedIn(readFileSync(page, 'utf8'))

  expect(named.filter((path) => !isThere(path, page))).toEqual([])
})

it('detects a file that was moved', () => {
  const named = namedIn(
    '`runs/holder.ts`, `runs/replicas/holder.ts`, `holder.ts`, `../server.ts`, `NAME/kind.ts`',
  )

  expect(named.map((path) => isThere(path, 'runtime/api/keys/README.md'))).toEqual([false, true, true, true])
})
