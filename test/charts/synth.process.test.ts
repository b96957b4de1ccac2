import { execFileSync } from 'node:child_process'
import { mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { build } from 'esbuild'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ROOT } from './fixture.ts'

const MAIN = join(ROOT, 'charts-src/main.ts')
const DIGEST = join(ROOT, 'test/charts/fixtures/tree-digest.ts')

const digest = (env: NodeJS.ProcessEnv, node = process.execPath, script = DIGEST) =>
  execFileSync(node, [script, ROOT], { encoding: 'utf8', env: { ...process.env, ...env }, cwd: tmpdir() })

/** The digests with this process's own Node and environment. */
const plain = digest({})

describe('synth', () => {
  it('confirms that the committed trees equal the rendered trees', () => {
    const said = execFileSync(process.execPath, [MAIN, '--check'], { encoding: 'utf8' })

    expect(said).toBe('gitops/ is what is rendered\n')
  })

  it.each([
    { TZ: 'UTC', LANG: 'C', LC_ALL: 'C' },
    { TZ: 'Asia/Kathmandu', LANG: 'tr_TR.UTF-8', LC_ALL: 'tr_TR.UTF-8' },
    { TZ: 'America/St_Johns', LANG: 'de_DE.UTF-8', LC_ALL: 'de_DE.UTF-8' },
    { TZ: 'Pacific/Apia', LANG: 'sv_SE', LC_ALL: 'POSIX', NODE_ICU_DATA: '' },
  ])('renders the same bytes under $TZ and $LANG', (env) => {
    expect(digest(env)).toBe(plain)
  })
})

/** Adds `require`, which the bundle needs in an ES module, and `Map.groupBy`, which Node 20 lacks. */
const OLDER_NODE = `import { createRequire } from 'node:module'
const require = createRequire(import.meta.url)
Map.groupBy ??= (items, keyOf) => {
  const groups = new Map()
  for (const item of items) groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item])
  return groups
}`

/** Returns every Node in the PATH with another version, including the oldest supported one if it is installed. */
function otherNodes(): string[] {
  const found = execFileSync('sh', ['-c', 'which -a node || true'], { encoding: 'utf8' }).split('\n')
  const real = found.filter((path) => path !== '').map((path) => realpathSync(path))
  return [...new Set(real)].filter((path) => {
    return execFileSync(path, ['--version'], { encoding: 'utf8' }).trim() !== process.version
  })
}

const others = otherNodes()
const why = others.length === 0 ? ' (skipped: no other node in the PATH)' : ''

describe.skipIf(others.length === 0)(`synth under other versions of Node${why}`, () => {
  let folder: string
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'agentweaver-synth-'))
  })
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  it.each(others)(
    'renders the same bytes under %s, which reads no TypeScript and so gets a bundle',
    async (node) => {
      const bundle = join(folder, 'tree-digest.mjs')
      await build({
        entryPoints: [DIGEST],
        outfile: bundle,
        bundle: true,
        platform: 'node',
        format: 'esm',
        logLevel: 'error',
        banner: { js: OLDER_NODE },
        define: { __filename: '""', __dirname: '""' },
      })

      expect(digest({}, node, bundle)).toBe(plain)
    },
  )
})
