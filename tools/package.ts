/**
 * Builds the contents of the `npm pack` tarball other than `cli/bin.js`: the command, the API, AgentHost, the runner and the egress proxy
 * as JavaScript in `dist/npm`, because Node refuses to strip types below `node_modules`. npm calls it as `prepack`.
 */
import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build, type Plugin } from 'esbuild'
import { COMMON, embedAssets, PACKAGES, REQUIRE, writeGrammar } from './bundle.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
/** The chaos suite builds its own copy in another folder below `dist`. */
const FOLDER = process.argv[2] ?? 'dist/npm'

/** The programs by the names of their bundles. All files lie in one folder, so that a chunk finds each of them. */
const PROGRAMS = {
  cli: 'cli/main.ts',
  api: 'runtime/api/server.ts',
  'agent-host': 'runtime/agent-host/server.ts',
  runner: 'runtime/runner/server.ts',
  egress: 'runtime/egress/server.ts',
} as const

const OWN_SOURCES = /\/(?:cli|contracts|policies|runtime|infra|charts-src|reachability)\/[^\0]*\.ts$/
const PROGRAM_URL = /new URL\('[^']*\/([a-z-]+)\/server\.ts', import\.meta\.url\)/g

/**
 * Keeps the original `import.meta.url` of a source, so that it finds `package.json`, examples and policies. The URLs of
 * programs point to their bundles.
 */
const keepPlaces: Plugin = {
  name: 'keep-places',
  setup(builder) {
    builder.onLoad({ filter: OWN_SOURCES }, async ({ path }) => {
      const place = relative(root, path)
      const source = await readFile(path, 'utf8')
      if (place.startsWith('node_modules') || !source.includes('import.meta.url')) return undefined
      const contents = source
        .replaceAll(PROGRAM_URL, "new URL('./$1.js', import.meta['url'])")
        .replaceAll(
          'import.meta.url',
          `new URL(${JSON.stringify(`../../${place}`)}, import.meta['url']).href`,
        )
      return { contents, loader: 'ts' }
    })
  },
}

/** Bundles all programs and returns the package files that are in the bundles. */
async function bundlePrograms(): Promise<string[]> {
  const { metafile } = await build({
    ...COMMON,
    // The lowest Node of `engines`.
    target: 'node22.18',
    // A stack trace shows the line that threw: in minified code that is a page.
    minifySyntax: false,
    minifyWhitespace: false,
    entryPoints: PROGRAMS,
    outdir: FOLDER,
    chunkNames: 'part-[hash]',
    splitting: true,
    format: 'esm',
    external: [...PACKAGES, 'pg-native'],
    banner: { js: REQUIRE },
    legalComments: 'none',
    metafile: true,
    plugins: [embedAssets('./runner.js'), keepPlaces],
  })
  return Object.keys(metafile.inputs)
}

const PACKAGE = /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//
const LICENCE = /^(?:licen[cs]e|copying|notice)/i

/** The licences of the bundled packages require that their text is distributed with the code. */
async function licenceTexts(files: readonly string[]): Promise<string> {
  const folders = new Set(files.flatMap((file) => PACKAGE.exec(file)?.[1] ?? []))
  const texts = await Promise.all([...folders].sort().map((folder) => licenceOf(join(root, folder))))
  return texts.join(`\n${'-'.repeat(80)}\n\n`)
}

async function licenceOf(folder: string): Promise<string> {
  const manifest = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as Record<string, unknown>
  const names = (await readdir(folder)).filter((name) => LICENCE.test(name)).sort()
  const texts = await Promise.all(names.map((name) => readFile(join(folder, name), 'utf8')))
  const title = `${manifest['name']} ${manifest['version']} (${manifest['license']})`
  return [title, ...texts.map((text) => text.trim())].join('\n\n').concat('\n')
}

await rm(join(root, FOLDER), { recursive: true, force: true })
const files = await bundlePrograms()
await writeGrammar(join(root, FOLDER))
await writeFile(join(root, FOLDER, 'THIRD-PARTY-LICENSES.txt'), await licenceTexts(files))
