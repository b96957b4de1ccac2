/**
 * Bundles AgentHost and the runner, one file each, into `dist/`: in a sandbox every opened file costs
 * milliseconds. The policy files are embedded; the shell grammar lies beside its bundle.
 */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build, type Plugin } from 'esbuild'
import { readAgentPolicyTexts } from '../policies/agent/load.ts'
import { readGrammarModules } from '../runtime/governance/shell/grammar.ts'

const root = fileURLToPath(new URL('..', import.meta.url))

/** The module in whose place the bundle carries its contents. */
const ASSETS = /\/agent-host\/assets\.ts$/

/** The grammar's modules lie beside the bundle: they are read when a run is configured, not at start. */
const GRAMMAR_FILES = { runtime: 'shell-parser.wasm', bash: 'shell-grammar.wasm' } as const

const assetsModule = (): string => `
  import { readFile } from 'node:fs/promises'
  import { fileURLToPath } from 'node:url'
  const read = async (name) => new Uint8Array(await readFile(new URL(name, import.meta.url)))
  export const assets = {
    agentPolicyTexts: () => (${JSON.stringify(readAgentPolicyTexts())}),
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

/** Bundles both services below a folder and answers where their entries are. */
export async function bundleServices(outdir: string): Promise<{ agentHost: string; runner: string }> {
  await build({
    absWorkingDir: root,
    entryPoints: {
      'agent-host/server': 'runtime/agent-host/server.ts',
      'runner/server': 'runtime/runner/server.ts',
    },
    outdir,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node24',
    minifySyntax: true,
    minifyWhitespace: true,
    keepNames: true,
    // Native code and a runtime of its own: they stay packages.
    external: ['koffi', '@github/copilot-sdk'],
    banner: {
      js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);",
    },
    plugins: [embedAssets],
    logLevel: 'warning',
  })
  await writeGrammar(join(outdir, 'agent-host'))
  return { agentHost: `${outdir}/agent-host/server.mjs`, runner: `${outdir}/runner/server.mjs` }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { agentHost, runner } = await bundleServices(`${root}dist`)
  process.stdout.write(`${agentHost}\n${runner}\n`)
}
