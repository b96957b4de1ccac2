import { readdirSync, readFileSync } from 'node:fs'
import { dirname, posix, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const ROOT = resolve(dirname(fileURLToPath(import.meta.url)), '..')

type Rule = {
  /** Other folders that a room may import, and `node:` modules. */
  readonly rooms?: readonly string[]
  /** npm packages, or all of a scope with `@scope/`; `pkg in folder/` holds it in one folder of the room. */
  readonly packages?: readonly string[]
  readonly isPure?: boolean
}

const LEAVES = ['contracts', 'runtime/kit']
const RULED = [...LEAVES, 'policies/agent']
const LIBRARIES = ['redaction', 'audit', 'governance', 'workspace', 'tools', 'agents', 'executors'].map(
  (name) => `runtime/${name}`,
)

/** How a stack file is read and validated, without Pulumi. */
const STACK_FILES = ['infra/config-schema.ts', 'infra/config-sections.ts', 'infra/stack-file.ts']

/** The permitted imports. Everything else is rejected. The longest room that contains a file applies. */
const RULES: Readonly<Record<string, Rule>> = {
  contracts: { packages: ['zod'], isPure: true },
  policies: {
    rooms: ['contracts'],
    packages: ['zod', 'yaml', 'tldts in agent/egress/', '@pulumi/policy in stack/'],
  },
  reachability: { rooms: ['contracts', 'charts-src/kube-object.ts'], packages: ['zod'] },
  'charts-src': {
    rooms: ['contracts', 'policies', 'reachability'],
    packages: ['zod', 'yaml', 'cdk8s', 'cdk8s-plus-28', 'constructs'],
  },
  'charts-src/imports': { rooms: [], packages: ['cdk8s', 'constructs', 'typescript', 'yaml'] },
  'charts-src/capacity': { rooms: ['contracts', 'charts-src/environment'], packages: [] },
  'charts-src/checks': {
    rooms: ['contracts', 'policies', 'reachability', 'charts-src'],
    packages: ['zod', 'yaml'],
  },
  infra: { rooms: ['contracts'], packages: ['zod', 'yaml', '@pulumi/'] },
  'infra/model': { rooms: ['contracts'], packages: [] },
  'runtime/kit': { rooms: ['contracts'], packages: ['zod', 'pino', 'safe-stable-stringify'] },
  'runtime/redaction': { rooms: RULED, packages: ['zod'] },
  'runtime/audit': { rooms: RULED, packages: ['zod'] },
  'runtime/governance': {
    rooms: RULED,
    packages: ['zod', 'picomatch', 'web-tree-sitter', 'tree-sitter-bash'],
  },
  'runtime/workspace': { rooms: RULED, packages: ['zod', 'koffi', 're2js', 'tar-stream', 'picomatch'] },
  'runtime/executors': { rooms: RULED, packages: ['zod'] },
  'runtime/credential-check': { rooms: LEAVES, packages: [] },
  'runtime/egress': {
    rooms: [
      ...RULED,
      'runtime/credential-check',
      'runtime/egress-ca/certificate.ts',
      'runtime/redaction',
      'runtime/azure',
    ],
    packages: ['zod', 'jose in cluster/', 'prom-client in cluster/'],
  },
  'runtime/egress-ca': { rooms: LEAVES, packages: ['@peculiar/'] },
  // It runs alone in a sandbox.
  'runtime/egress-relay': { rooms: [], packages: [] },
  'runtime/git': { rooms: [...RULED, 'runtime/executors', 'runtime/workspace'], packages: ['zod'] },
  'runtime/azure': { rooms: LEAVES, packages: ['@azure/'] },
  'runtime/system-calls': { rooms: LEAVES, packages: ['koffi'] },
  'runtime/store': { rooms: RULED, packages: ['zod', 'kysely', 'pg'] },
  'runtime/tools': { rooms: [...LEAVES, 'runtime/governance', 'runtime/redaction'], packages: ['zod'] },
  'runtime/agents': { rooms: [...LEAVES, 'runtime/tools'], packages: ['zod', '@github/copilot-sdk'] },
  'runtime/runner': {
    rooms: [...RULED, 'runtime/executors', 'runtime/workspace', 'runtime/system-calls'],
    packages: ['zod'],
  },
  'runtime/agent-host-client': {
    rooms: LEAVES,
    packages: ['zod', '@a2a-js/sdk', 'undici', 'eventsource-parser'],
  },
  'runtime/client': { rooms: LEAVES, packages: ['zod', 'eventsource-parser', 'undici'] },
  'runtime/state-folder': { rooms: LEAVES, packages: ['zod'] },
  'runtime/sandboxes': {
    rooms: [...LEAVES, 'runtime/agent-host-client', 'runtime/executors'],
    packages: [
      'zod',
      '@kubernetes/client-node in kubernetes/',
      'undici in kubernetes/',
      'jose in kubernetes/',
    ],
  },
  'runtime/api': {
    rooms: [
      ...RULED,
      ...LIBRARIES,
      'runtime/azure',
      'runtime/credential-check',
      'runtime/egress-ca',
      'runtime/git',
      'runtime/state-folder',
      'runtime/store',
      'runtime/sandboxes',
      'runtime/agent-host-client',
      'package.json',
    ],
    packages: [
      'zod',
      'fastify',
      'fastify-type-provider-zod',
      '@fastify/',
      'jose',
      'tar-stream',
      'diff in runs/',
      'prom-client in runs/',
      'prom-client in metrics/',
      '@opentelemetry/ in tracing/',
      'uuid in runs/',
      'undici in credentials/',
    ],
  },
  'runtime/agent-host': {
    rooms: [...RULED, ...LIBRARIES, 'runtime/azure', 'runtime/system-calls'],
    packages: ['zod', 'fastify', '@fastify/', 'jose', 'tar-stream', '@a2a-js/sdk in turn/'],
  },
  cli: {
    rooms: [
      ...LEAVES,
      'runtime/client',
      'runtime/state-folder',
      'runtime/executors',
      'runtime/audit',
      'runtime/store/open-audit-copy.ts',
      'runtime/git/find-git.ts',
      'runtime/git/private-git.ts',
      'runtime/git/clean-config.ts',
      'runtime/git/configuration.ts',
      'runtime/git/read-data.ts',
      'runtime/workspace',
      'runtime/system-calls/terminal-input.ts',
      'policies/agent/egress',
      'policies/agent/hand-off.ts',
      'policies/agent/settings.ts',
      'charts-src/capacity',
      'charts-src/environment',
      'infra/model',
      ...STACK_FILES,
    ],
    packages: [
      'zod',
      'commander',
      'openid-client in sign-in/',
      'diff in view/',
      'yaml in infra/',
      'yaml in preview-stack/',
    ],
  },
  tools: { rooms: ['contracts', 'policies/agent', 'runtime'], packages: ['esbuild'] },
  'tools/azure-shapes': { rooms: ['contracts'], packages: ['ajv', 'typescript'] },
  'tools/drift': { rooms: ['contracts'], packages: ['zod'] },
  'tools/offline-plan': { rooms: ['contracts', ...STACK_FILES, 'infra/model'], packages: ['yaml'] },
  'tools/plan-rules': { rooms: ['contracts', 'policies/stack', 'tools/azure-shapes'], packages: [] },
  'tools/promote': {
    rooms: ['contracts', 'charts-src/environment', ...STACK_FILES, 'infra/model'],
    packages: [],
  },
  'tools/pull-request-comment': { rooms: ['contracts'], packages: ['zod'] },
  images: { packages: [] },
  devcluster: {
    rooms: ['contracts', 'charts-src', 'images', 'tools/bundle.ts', 'tools/make-keys.ts'],
    packages: ['undici', 'yaml', 'tar-stream', 'commander', 'pg in service/'],
  },
}

const IMPORT =
  /(?:^|[\s;])(?:import|export)\s[^'"`;]*?from\s*['"]([^'"]+)['"]|(?<!['"])import\s*\(?\s*['"]([^'"]+)['"]/g
const roomOf = (path: string) =>
  Object.keys(RULES)
    .filter((room) => path.startsWith(`${room}/`))
    .sort((a, b) => b.length - a.length)[0]

const targetOf = (file: string, specifier: string) =>
  specifier.startsWith('.') ? posix.join(posix.dirname(file), specifier) : specifier
/** Benchmarks may import everything except tests. */
const isBench = (file: string) => file.startsWith('bench/')

const isInside = (path: string, room: string) => path === room || path.startsWith(`${room}/`)

function permits(file: string, specifier: string): boolean {
  const room = roomOf(file)
  const { rooms = [], packages = [], isPure = false } = RULES[room ?? ''] ?? {}
  if (room === undefined) return false
  if (specifier.startsWith('node:')) return !isPure
  if (specifier.startsWith('.')) {
    const target = targetOf(file, specifier)
    return [room, ...rooms].some((allowed) => isInside(target, allowed))
  }
  return packages.some((entry) => {
    const [name = '', folder] = entry.split(' in ')
    const isNamed = name.endsWith('/') ? specifier.startsWith(name) : isInside(specifier, name)
    return isNamed && (folder === undefined || file.startsWith(`${room}/${folder}`))
  })
}

/** Every rule that a source file breaks, in words. */
function violations(file: string, source: string): string[] {
  const isTest = file.startsWith('test/') || file.startsWith('bench/')
  const imports = [...source.matchAll(IMPORT)].map(([, named, bare]) => named ?? bare ?? '')
  const refused = isTest ? [] : imports.filter((specifier) => !permits(file, specifier))
  const ofTests = isBench(file)
    ? imports.filter((specifier) => isInside(targetOf(file, specifier), 'test'))
    : []
  return [
    ...[...refused, ...ofTests].map((specifier) => `${file} imports ${specifier}`),
    ...(/\bvi\.(?:mock|doMock)\(/.test(source) ? [`${file} mocks a module`] : []),
    ...(/^\s*export\s+(?:type\s+)?(?:\*|\{[^}]*\})\s*from\s/m.test(source) ? [`${file} is a barrel`] : []),
    // A named import of `z` puts all of zod into a bundle; a namespace import only the used parts.
    ...(/^import \{[^}]*\bz\b[^}]*\} from 'zod'/m.test(source) && !isTest
      ? [`${file} imports z by name`]
      : []),
    ...(/(?:^|\/)(?:utils?|common|shared|helpers?)\//.test(file) && !isTest
      ? [`${file} has no subject`]
      : []),
  ]
}

const TREES = [
  'contracts',
  'policies',
  'infra',
  'charts-src',
  'reachability',
  'runtime',
  'cli',
  'devcluster',
  'images',
  'test',
  'bench',
  'tools',
]
const SOURCES = TREES.flatMap((tree) =>
  readdirSync(resolve(ROOT, tree), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
    .map((entry) => relative(ROOT, resolve(entry.parentPath, entry.name)))
    .filter((file) => file !== 'test/architecture.test.ts'),
)

test('every source file imports only what its room may import', () => {
  const found = SOURCES.flatMap((file) => violations(file, readFileSync(resolve(ROOT, file), 'utf8')))

  expect(SOURCES.length).toBeGreaterThan(100)
  expect(found).toEqual([])
})

test('only the state machine of runs changes the state of a run', () => {
  const writers = SOURCES.filter(
    (file) =>
      file.startsWith('runtime/api/') &&
      readFileSync(resolve(ROOT, file), 'utf8').includes('.changeRunState('),
  )

  expect(writers).toEqual(['runtime/api/runs/machine/transition.ts'])
})

test.each([
  ['contracts/x.ts', `import { join } from 'node:path'`],
  ['contracts/x.ts', `import type { Log } from '../runtime/kit/log.ts'`],
  ['policies/agent/x.ts', `import { z } from '../../runtime/kit/errors.ts'`],
  ['runtime/kit/x.ts', `import { Store } from '../store/store.ts'`],
  ['charts-src/apps/x.ts', `import { log } from '../../runtime/kit/log.ts'`],
  ['charts-src/checks/x.ts', `import { App } from 'cdk8s'`],
  ['runtime/audit/x.ts', `import { openStore } from '../store/open-store.ts'`],
  ['runtime/executors/x.ts', `import Fastify from 'fastify'`],
  ['runtime/egress/x.ts', `import { Agent } from 'undici'`],
  ['runtime/egress-relay/x.ts', `import { messageOf } from '../kit/errors.ts'`],
  ['runtime/tools/x.ts', `import { bwrapBackend } from '../executors/bwrap.ts'`],
  ['runtime/client/x.ts', `import { buildApp } from '../api/app.ts'`],
  ['runtime/api/x.ts', `const host = await import('../agent-host/app.ts')`],
  ['runtime/agent-host/x.ts', `import { KubeConfig } from '@kubernetes/client-node'`],
  ['runtime/agent-host/configure/x.ts', `import { AgentCard } from '@a2a-js/sdk'`],
  ['runtime/agent-host/session/x.ts', `import { SecretClient } from '@azure/keyvault-secrets'`],
  ['runtime/agent-host/x.ts', `import {\n  openStore,\n} from '../store/open-store.ts'`],
  ['runtime/sandboxes/local/x.ts', `import { KubeConfig } from '@kubernetes/client-node'`],
  ['cli/x.ts', `import '../runtime/api/server.ts'`],
  ['cli/x.ts', `import { Network } from '../infra/components/network.ts'`],
  ['infra/components/x.ts', `import { a } from '../../charts-src/workloads.ts'`],
  ['infra/x.ts', `import { makePlan } from '../tools/offline-plan/make-plan.ts'`],
  ['tools/azure-shapes/x.ts', `import { parseStackFile } from '../../infra/config-schema.ts'`],
  ['infra/model/x.ts', `import * as pulumi from '@pulumi/pulumi'`],
  ['cli/x.ts', `export { a } from './y.ts'`],
  ['somewhere/x.ts', `import { a } from './y.ts'`],
  ['cli/utils/x.ts', `const a = 1`],
  ['contracts/x.ts', `import { z } from 'zod'`],
  ['test/x.test.ts', `vi.mock('../cli/main.ts')`],
  ['bench/x.bench.ts', `import { aRun } from '../test/store/rows.ts'`],
  ['tools/x/main.ts', `import { aRun } from '../../test/store/rows.ts'`],
  ['images/x.ts', `import { cacheRoot } from '../devcluster/build/tool-cache.ts'`],
])('finds what is planted in %s: %s', (file, source) => {
  expect(violations(file, source)).toHaveLength(1)
})

test.each([
  ['runtime/agent-host/turn/x.ts', `import { AgentCard } from '@a2a-js/sdk'`],
  ['runtime/azure/x.ts', `const { SecretClient } = await import('@azure/keyvault-secrets')`],
  ['runtime/api/x.ts', `import rateLimit from '@fastify/rate-limit'`],
  ['cli/commands/x.ts', `import { createClient } from '../../runtime/client/client.ts'`],
  ['contracts/x.ts', `import * as z from 'zod'`],
  ['contracts/x.ts', `import type { z } from 'zod'`],
  ['infra/components/x.ts', `import { Vault } from '@pulumi/azure-native/keyvault/index.js'`],
  ['cli/commands/x.ts', `import { parseStackFile } from '../../infra/config-schema.ts'`],
])('lets pass what a room may import: %s: %s', (file, source) => {
  expect(violations(file, source)).toEqual([])
})

type Imports = ReadonlyMap<string, readonly string[]>

/** The source files that each file imports when it is loaded or for its types. Dynamic imports are left out. */
const importsOf = (files: readonly string[]): Imports =>
  new Map(files.map((file) => [file, staticImports(file, readFileSync(resolve(ROOT, file), 'utf8'))]))

const staticImports = (file: string, source: string): string[] =>
  [...source.matchAll(IMPORT)]
    .flatMap(([, named]) => (named?.startsWith('.') ? [named] : []))
    .map((specifier) => posix.join(posix.dirname(file), specifier))

/** The files from which a chain of imports leads back to the file itself. */
function filesInCycles(imports: Imports): string[] {
  const isInCycle = (start: string): boolean => {
    const seen = new Set<string>()
    const open = [...(imports.get(start) ?? [])]
    for (let file = open.pop(); file !== undefined; file = open.pop()) {
      if (file === start) return true
      if (seen.has(file)) continue
      seen.add(file)
      open.push(...(imports.get(file) ?? []))
    }
    return false
  }
  return [...imports.keys()].filter(isInCycle)
}

/** Biome's `noImportCycles` reports only cycles of values. */
test('no import cycles, type imports included', () => {
  expect(filesInCycles(importsOf(SOURCES))).toEqual([])
})

test('finds a cycle that consists of type imports only', () => {
  const sources = {
    'cli/a.ts': `import type { B } from './b.ts'`,
    'cli/b.ts': `import { type C } from './c.ts'`,
    'cli/c.ts': `import type { A } from './a.ts'`,
    'cli/d.ts': `import type { A } from './a.ts'`,
  }
  const imports = new Map(
    Object.entries(sources).map(([file, source]) => [file, staticImports(file, source)]),
  )

  expect(filesInCycles(imports)).toEqual(['cli/a.ts', 'cli/b.ts', 'cli/c.ts'])
})
