/**
 * Bundles AgentHost, the runner and the API into `dist/`: in a sandbox every opened file costs milliseconds, and so does
 * every function that is compiled, so the sandbox's two programs bring what V8 compiled of them. The policy is embedded; the
 * shell grammar lies beside its bundle.
 */
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createRequire, isBuiltin } from 'node:module'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isDeepStrictEqual } from 'node:util'
import { type BuildOptions, build, type ImportKind, type Plugin } from 'esbuild'
import { readAgentPolicy } from '../policies/agent/load.ts'
import { readGrammarModules } from '../runtime/governance/shell/grammar.ts'
import { makeCodeCaches } from './code-cache/make.ts'
import { PARAMETERS, PROGRAM } from './code-cache/program.ts'

const require = createRequire(import.meta.url)
const root = fileURLToPath(new URL('..', import.meta.url))

/** The module in whose place the bundle carries its contents. */
const ASSETS = /\/(?:agent-host|api)\/assets\.ts$/

/** The grammar's modules lie beside the bundle: they are read after start. */
const GRAMMAR_FILES = { runtime: 'shell-parser.wasm', bash: 'shell-grammar.wasm' } as const

/** The policy goes in parsed: reading YAML at start costs as much as all the rest of it. */
function policyLiteral(): string {
  const policy = readAgentPolicy()
  const text = JSON.stringify(policy)
  if (!isDeepStrictEqual(JSON.parse(text), policy))
    throw new Error('the agent policy is more than JSON can say')
  return text
}

const assetsModule = (runnerEntry: string): string => `
  import { readFile } from 'node:fs/promises'
  import { fileURLToPath } from 'node:url'
  const read = async (name) => new Uint8Array(await readFile(new URL(name, import.meta.url)))
  export const assets = {
    agentPolicy: () => (${policyLiteral()}),
    grammarModules: async () => ({
      runtime: await read('${GRAMMAR_FILES.runtime}'),
      bash: await read('${GRAMMAR_FILES.bash}'),
    }),
    runnerEntry: fileURLToPath(new URL('${runnerEntry}', import.meta.url)),
  }`

/** Writes the shell grammar beside a bundle. */
export async function writeGrammar(folder: string): Promise<void> {
  const modules = await readGrammarModules()
  await mkdir(folder, { recursive: true })
  await writeFile(join(folder, GRAMMAR_FILES.runtime), modules.runtime)
  await writeFile(join(folder, GRAMMAR_FILES.bash), modules.bash)
}

/** Embeds the policy; the grammar is read beside the bundle, and the runner at `runnerEntry`, relative to the bundle. */
export const embedAssets = (runnerEntry: string): Plugin => ({
  name: 'embed-assets',
  setup(builder) {
    builder.onLoad({ filter: ASSETS }, () => ({ contents: assetsModule(runnerEntry), loader: 'js' }))
  },
})

/** One language is spoken. */
export const oneLocale: Plugin = {
  name: 'one-locale',
  setup(builder) {
    builder.onLoad({ filter: /\/zod\/v4\/locales\/index\.(?:js|cjs)$/ }, () => ({
      contents: "export { default as en } from './en.js'",
    }))
  },
}

/**
 * What Fastify brings for those who use it, and `buildAgentHost` does not: schemas to compile, a logger, injected requests,
 * a proxy in front, plugins that name versions. Some of these run at once. And a browser, which nobody opens in a pod.
 */
const UNUSED =
  /^(?:@fastify\/(?:ajv-compiler|fast-json-stringify-compiler|proxy-addr)|light-my-request|pino|semver|open)$/

/** Others may use the same packages in earnest. */
const IMPORTERS = /\/node_modules\/(?:fastify|@fastify\/[^/]+|@azure\/identity)\/(?!.*\/node_modules\/)/

/** Whoever does use one of them is told so. */
const leaveOut: Plugin = {
  name: 'leave-out',
  setup(builder) {
    builder.onResolve({ filter: UNUSED }, ({ path, importer }) =>
      IMPORTERS.test(importer) ? { path, namespace: 'left-out' } : undefined,
    )
    builder.onLoad({ filter: /.*/, namespace: 'left-out' }, ({ path }) => ({
      contents: `
        const leftOut = () => { throw new Error(${JSON.stringify(`${path} is not in this bundle`)}) }
        module.exports = new Proxy(leftOut, { get: () => leftOut })`,
    }))
  },
}

/** Builtins that take milliseconds to load, and that a start has little need of. */
const LATE_BUILTINS = ['child_process', 'crypto', 'fs/promises', 'http2', 'https', 'readline', 'v8', 'vm']

const isLate = (path: string) => LATE_BUILTINS.includes(path.replace(/^node:/, ''))

/** Each late builtin by its names, of which the first that is asked for loads it. */
const lateBuiltins = (): string => `
  const late = (load, names) => {
    const builtin = {}
    let module
    const loaded = () => (module ??= load())
    for (const name of names) {
      const set = (value) => { loaded()[name] = value }
      Object.defineProperty(builtin, name, { enumerable: true, get: () => loaded()[name], set })
    }
    return builtin
  }
  ${LATE_BUILTINS.map(lateBuiltin).join('\n')}`

function lateBuiltin(name: string): string {
  const path = JSON.stringify(`node:${name}`)
  const names = JSON.stringify(Object.getOwnPropertyNames(require(`node:${name}`)))
  return `exports[${path}] = late(() => require(${path}), ${names})`
}

function isWrapped(format: 'cjs' | 'esm', kind: ImportKind, path: string): boolean {
  // Late by itself, and with names of its own. In CommonJS it would become the `require` of where it stands.
  if (kind === 'dynamic-import') return format === 'cjs'
  return kind === 'import-statement' || isLate(path)
}

/**
 * An `import` of a builtin reads each of its exports, and one of `node:http` loads a whole HTTP client. Each importer has a
 * module of its own for it: one that several share would be a file of its own.
 */
const builtins = (format: 'cjs' | 'esm'): Plugin => ({
  name: 'builtins',
  setup(builder) {
    builder.onResolve({ filter: /.*/ }, ({ kind, path, importer, namespace }) => {
      if (!isBuiltin(path) || namespace === 'builtin') return undefined
      if (!isWrapped(format, kind, path)) return undefined
      return { path, namespace: 'builtin', suffix: `?${relative(root, importer)}` }
    })
    builder.onResolve({ filter: /^late-builtins$/ }, ({ path }) => ({ path, namespace: 'builtin' }))
    builder.onLoad({ filter: /.*/, namespace: 'builtin' }, ({ path }) => ({ contents: builtinModule(path) }))
  },
})

function builtinModule(path: string): string {
  if (path === 'late-builtins') return lateBuiltins()
  const name = JSON.stringify(`node:${path.replace(/^node:/, '')}`)
  return `module.exports = ${isLate(path) ? `require('late-builtins')[${name}]` : `require(${name})`}`
}

export const COMMON = {
  absWorkingDir: root,
  bundle: true,
  platform: 'node',
  target: 'node24',
  minifySyntax: true,
  minifyWhitespace: true,
  logLevel: 'warning',
} satisfies BuildOptions

const PLUGINS = [embedAssets('../runner/server.cjs'), oneLocale]

/**
 * Bundles the API below a folder, and beside it the program that makes its role in the database. Returns the API's entry.
 * Its sandboxes are pods: it brings no local ones.
 */
export async function bundleApi(outdir: string): Promise<string> {
  const folder = join(outdir, 'api')
  await rm(folder, { recursive: true, force: true })
  await build({
    ...COMMON,
    entryPoints: {
      server: 'runtime/api/server.ts',
      'database-setup': 'runtime/api/database-setup/main.ts',
    },
    outdir: folder,
    outExtension: { '.js': '.mjs' },
    // What it loads later is a file of its own.
    splitting: true,
    format: 'esm',
    // The last is a binding to a C library that nobody installs, which `pg` looks for.
    external: [...PACKAGES, 'pg-native'],
    banner: { js: REQUIRE },
    plugins: [...PLUGINS, builtins('esm')],
  })
  await writeGrammar(folder)
  return join(folder, 'server.mjs')
}

/** Native code and a runtime of its own: they stay packages. */
export const PACKAGES = ['koffi', '@github/copilot-sdk']

/** CommonJS packages in an ES module call `require` for builtins. */
export const REQUIRE =
  "import { createRequire as bundleRequire } from 'node:module'; const require = bundleRequire(import.meta.url);"

/**
 * One program of a sandbox, as one function in one file: V8 keeps what it compiled per file, and Node's loader of modules
 * alone takes a third of a small program's start.
 */
async function bundleProgram(entry: string, folder: string): Promise<void> {
  const parameters = PARAMETERS.join(', ')
  const outfile = join(folder, PROGRAM)
  await build({
    ...COMMON,
    entryPoints: [entry],
    outfile,
    format: 'cjs',
    external: PACKAGES,
    define: { 'import.meta.url': 'importMetaUrl' },
    supported: { 'dynamic-import': false },
    banner: {
      js: `(function (${parameters}) { 'use strict'; const importMetaUrl = require('node:url').pathToFileURL(__filename).href;`,
    },
    footer: { js: '})' },
    plugins: [...PLUGINS, leaveOut, builtins('cjs')],
  })
  const other = /.{0,40}[^\0-\x7f].{0,40}/.exec(await readFile(outfile, 'utf8'))
  if (other) throw new Error(`one such character doubles the memory that the program takes: ${other[0]}`)
}

/** Bundles both programs of a sandbox below a folder, compiled for this Node, and answers where their entries are. */
export async function bundleServices(outdir: string): Promise<{ agentHost: string; runner: string }> {
  // Where they find their packages: they are started once.
  const cache = join(root, 'node_modules/.cache')
  await mkdir(cache, { recursive: true })
  const scratch = await mkdtemp(join(cache, 'bundle-'))
  try {
    await Promise.all([
      bundleProgram('runtime/agent-host/server.ts', join(scratch, 'agent-host')),
      bundleProgram('runtime/runner/server.ts', join(scratch, 'runner')),
    ])
    await writeGrammar(join(scratch, 'agent-host'))
    await makeCodeCaches(scratch)
    for (const name of ['agent-host', 'runner']) {
      await rm(join(outdir, name), { recursive: true, force: true })
      await cp(join(scratch, name), join(outdir, name), { recursive: true })
    }
  } finally {
    await rm(scratch, { recursive: true, force: true })
  }
  return { agentHost: join(outdir, 'agent-host/server.cjs'), runner: join(outdir, 'runner/server.cjs') }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { agentHost, runner } = await bundleServices(`${root}dist`)
  const api = await bundleApi(`${root}dist`)
  process.stdout.write(`${agentHost}\n${runner}\n${api}\n`)
}
