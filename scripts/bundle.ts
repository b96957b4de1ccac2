/**
 * Bundles AgentHost, the runner and the API into `dist/`, a few files each: in a sandbox every opened file costs
 * milliseconds. The policy is embedded; the shell grammar lies beside its bundle.
 */
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { isBuiltin } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isDeepStrictEqual } from 'node:util'
import { type BuildOptions, build, type Plugin } from 'esbuild'
import { readAgentPolicy } from '../policies/agent/load.ts'
import { readGrammarModules } from '../runtime/governance/shell/grammar.ts'

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

const assetsModule = (): string => `
  import { readFile } from 'node:fs/promises'
  import { fileURLToPath } from 'node:url'
  const read = async (name) => new Uint8Array(await readFile(new URL(name, import.meta.url)))
  export const assets = {
    agentPolicy: () => (${policyLiteral()}),
    grammarModules: async () => ({
      runtime: await read('${GRAMMAR_FILES.runtime}'),
      bash: await read('${GRAMMAR_FILES.bash}'),
    }),
    runnerEntry: fileURLToPath(new URL('../runner/server.mjs', import.meta.url)),
  }`

async function writeGrammar(folder: string): Promise<void> {
  const modules = await readGrammarModules()
  await mkdir(folder, { recursive: true })
  await writeFile(join(folder, GRAMMAR_FILES.runtime), modules.runtime)
  await writeFile(join(folder, GRAMMAR_FILES.bash), modules.bash)
}

const embedAssets: Plugin = {
  name: 'embed-assets',
  setup(builder) {
    builder.onLoad({ filter: ASSETS }, () => ({ contents: assetsModule(), loader: 'js' }))
  },
}

/** One language is spoken. */
const oneLocale: Plugin = {
  name: 'one-locale',
  setup(builder) {
    builder.onLoad({ filter: /\/zod\/v4\/locales\/index\.(?:js|cjs)$/ }, () => ({
      contents: "export { default as en } from './en.js'",
    }))
  },
}

/** Leaves out what is loaded at start and never used: every byte is scanned before the first line runs. */
const leaveOut: Plugin = {
  name: 'leave-out',
  setup(builder) {
    // `buildAgentHost` tells Fastify that there are no schemas to compile.
    builder.onResolve({ filter: /^@fastify\/(?:ajv-compiler|fast-json-stringify-compiler)$/ }, () => ({
      path: 'schemas',
      namespace: 'left-out',
    }))
    builder.onLoad({ filter: /.*/, namespace: 'left-out' }, () => ({
      contents: "module.exports = () => { throw new Error('there are no schemas to compile') }",
    }))
  },
}

/** An `import` of a builtin reads each of its exports, and one of `node:http` loads a whole HTTP client. */
const requireBuiltins: Plugin = {
  name: 'require-builtins',
  setup(builder) {
    builder.onResolve({ filter: /.*/ }, ({ kind, path }) =>
      kind === 'import-statement' && isBuiltin(path) ? { path, namespace: 'builtin' } : undefined,
    )
    builder.onLoad({ filter: /.*/, namespace: 'builtin' }, ({ path }) => ({
      contents: `module.exports = require(${JSON.stringify(path)})`,
    }))
  },
}

/** One service into a folder of its own; what it loads later is a file of its own too. */
async function bundleService(
  entry: string,
  outdir: string,
  { plugins = [], external = [] }: Pick<BuildOptions, 'plugins' | 'external'> = {},
): Promise<string> {
  await rm(outdir, { recursive: true, force: true })
  await build({
    absWorkingDir: root,
    entryPoints: { server: entry },
    outdir,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    splitting: true,
    platform: 'node',
    format: 'esm',
    target: 'node24',
    minifySyntax: true,
    minifyWhitespace: true,
    keepNames: true,
    // Native code and a runtime of its own: they stay packages.
    external: ['koffi', '@github/copilot-sdk', ...external],
    banner: {
      js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);",
    },
    plugins: [embedAssets, oneLocale, ...plugins, requireBuiltins],
    logLevel: 'warning',
  })
  return join(outdir, 'server.mjs')
}

/** Bundles the API below a folder and answers where its entry is. Its sandboxes are pods: it brings no local ones. */
export async function bundleApi(outdir: string): Promise<string> {
  // A binding to a C library that nobody installs, which `pg` looks for.
  const entry = await bundleService('runtime/api/server.ts', join(outdir, 'api'), { external: ['pg-native'] })
  await writeGrammar(join(outdir, 'api'))
  return entry
}

/** Bundles both services of a sandbox below a folder and answers where their entries are. */
export async function bundleServices(outdir: string): Promise<{ agentHost: string; runner: string }> {
  const [agentHost, runner] = await Promise.all([
    bundleService('runtime/agent-host/server.ts', join(outdir, 'agent-host'), { plugins: [leaveOut] }),
    bundleService('runtime/runner/server.ts', join(outdir, 'runner'), { plugins: [leaveOut] }),
  ])
  await writeGrammar(join(outdir, 'agent-host'))
  return { agentHost, runner }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { agentHost, runner } = await bundleServices(`${root}dist`)
  const api = await bundleApi(`${root}dist`)
  process.stdout.write(`${agentHost}\n${runner}\n${api}\n`)
}
