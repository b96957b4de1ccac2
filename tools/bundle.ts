/**
 * Bundles AgentHost, the runner and the API into `dist/`. A bundle opens one file instead of hundreds of sources; under
 * gVisor each open costs milliseconds. The agent policy is embedded, the shell grammar is a separate file next to the
 * bundle.
 */
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isDeepStrictEqual } from 'node:util'
import { type BuildOptions, build, type Plugin, transform } from 'esbuild'
import { readEgressPolicy } from '../policies/agent/egress/load.ts'
import { readAgentPolicy } from '../policies/agent/load.ts'
import { readGrammarModules } from '../runtime/governance/shell/grammar.ts'

const root = fileURLToPath(new URL('..', import.meta.url))

/** The modules that read the policy and the grammar from the source tree. A bundle replaces them. */
const ASSETS = /\/(?:agent-host|api)\/assets\.ts$/

/** The module that reads the program of the relay from the source tree. */
const RELAY_READER = /\/executors\/rootfs\/relay-program\.ts$/
const RELAY = join(root, 'runtime/egress-relay/relay.ts')

async function relayModule(): Promise<string> {
  const source = await readFile(RELAY, 'utf8')
  // The lowest Node of `engines`.
  const { code } = await transform(source, { loader: 'ts', format: 'esm', target: 'node22.18' })
  return `export const relayProgram = () => (${JSON.stringify({ text: code, extension: '.mjs' })})`
}

/** The WebAssembly modules of the shell grammar, which a program reads after its start. */
const GRAMMAR_FILES = { runtime: 'shell-parser.wasm', bash: 'shell-grammar.wasm' } as const

/** A policy as a JavaScript literal, so that a program does not parse YAML when it starts. */
function literalOf(policy: unknown): string {
  const text = JSON.stringify(policy)
  if (!isDeepStrictEqual(JSON.parse(text), policy))
    throw new Error('a policy contains a value that JSON cannot represent')
  return text
}

const assetsModule = (runnerEntry: string): string => `
  import { readFile } from 'node:fs/promises'
  import { fileURLToPath } from 'node:url'
  const read = async (name) => new Uint8Array(await readFile(new URL(name, import.meta.url)))
  export const assets = {
    agentPolicy: () => (${literalOf(readAgentPolicy())}),
    egressPolicy: () => (${literalOf(readEgressPolicy())}),
    grammarModules: async () => ({
      runtime: await read('${GRAMMAR_FILES.runtime}'),
      bash: await read('${GRAMMAR_FILES.bash}'),
    }),
    runnerEntry: fileURLToPath(new URL('${runnerEntry}', import.meta.url)),
  }`

/** Writes the shell grammar into the folder of a bundle. */
export async function writeGrammar(folder: string): Promise<void> {
  const modules = await readGrammarModules()
  await mkdir(folder, { recursive: true })
  await writeFile(join(folder, GRAMMAR_FILES.runtime), modules.runtime)
  await writeFile(join(folder, GRAMMAR_FILES.bash), modules.bash)
}

/** Embeds the policies and the relay. `runnerEntry` is the path of the runner's program, relative to the bundle. */
export const embedAssets = (runnerEntry: string): Plugin => ({
  name: 'embed-assets',
  setup(builder) {
    builder.onLoad({ filter: ASSETS }, () => ({ contents: assetsModule(runnerEntry), loader: 'js' }))
    builder.onLoad({ filter: RELAY_READER }, async () => ({ contents: await relayModule(), loader: 'js' }))
  },
})

export const COMMON = {
  absWorkingDir: root,
  bundle: true,
  platform: 'node',
  target: 'node24',
  minifySyntax: true,
  minifyWhitespace: true,
  logLevel: 'warning',
} satisfies BuildOptions

const PLUGINS = [embedAssets('../runner/server.cjs')]

/**
 * Bundles the API into a folder, together with the program that creates the API's role in the database. Returns the
 * path of the API's program. In a cluster sandboxes are pods, so the folder has no AgentHost.
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
    // Dynamically imported modules become separate files.
    splitting: true,
    format: 'esm',
    // `pg` tries to load `pg-native`, an optional binding to a C library that is not installed.
    external: [...PACKAGES, 'pg-native'],
    banner: { js: REQUIRE },
    plugins: PLUGINS,
  })
  await writeGrammar(folder)
  return join(folder, 'server.mjs')
}

/** Packages that cannot be bundled: koffi has native code, the Copilot SDK starts a separate runtime. */
export const PACKAGES = ['koffi', '@github/copilot-sdk']

/** Bundled CommonJS packages call `require` for Node's own modules; an ES module has no `require`. */
export const REQUIRE =
  "import { createRequire as bundleRequire } from 'node:module'; const require = bundleRequire(import.meta.url);"

/** One program of a sandbox as one CommonJS file: Node's loader for ES modules costs about 20 ms of a start. */
async function bundleProgram(entry: string, outfile: string): Promise<string> {
  await build({
    ...COMMON,
    entryPoints: [entry],
    outfile,
    format: 'cjs',
    external: PACKAGES,
    define: { 'import.meta.url': 'importMetaUrl' },
    banner: { js: "const importMetaUrl = require('node:url').pathToFileURL(__filename).href;" },
    plugins: PLUGINS,
  })
  return outfile
}

/** Bundles both programs of a sandbox below a folder. Returns the paths of the programs. */
export async function bundleServices(outdir: string): Promise<{ agentHost: string; runner: string }> {
  const folders = { agentHost: join(outdir, 'agent-host'), runner: join(outdir, 'runner') }
  for (const folder of Object.values(folders)) await rm(folder, { recursive: true, force: true })
  const [agentHost, runner] = await Promise.all([
    bundleProgram('runtime/agent-host/server.ts', join(folders.agentHost, 'server.cjs')),
    bundleProgram('runtime/runner/server.ts', join(folders.runner, 'server.cjs')),
  ])
  await writeGrammar(folders.agentHost)
  return { agentHost, runner }
}

/** Bundles the egress proxy of a cluster into a folder. Returns the path of the program. */
export async function bundleEgressProxy(outdir: string): Promise<string> {
  const folder = join(outdir, 'egress-proxy')
  await rm(folder, { recursive: true, force: true })
  return bundleProgram('runtime/egress/cluster/server.ts', join(folder, 'server.cjs'))
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { agentHost, runner } = await bundleServices(`${root}dist`)
  const api = await bundleApi(`${root}dist`)
  const egressProxy = await bundleEgressProxy(`${root}dist`)
  process.stdout.write(`${agentHost}\n${runner}\n${api}\n${egressProxy}\n`)
}
