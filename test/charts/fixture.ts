import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { CheckedTree } from '../../charts-src/checks/checked-tree.ts'
import { loadEnvironment } from '../../charts-src/environment/load-environment.ts'
import type { Environment } from '../../charts-src/environment/schema.ts'
import { type RenderedApp, renderEnvironment } from '../../charts-src/tree/render.ts'
import { placedObjects } from '../../charts-src/tree/tree-files.ts'
import type { KubeObject } from '../../devcluster/client/kube-object.ts'
import {
  type EgressPolicy,
  loadEgressPolicy,
  readEgressPolicy,
  readEgressPolicyText,
} from '../../policies/agent/egress/load.ts'

export const ROOT = join(import.meta.dirname, '..', '..')
export const ENVIRONMENTS = ['dev', 'local', 'pr-example', 'prod'] as const
export type EnvironmentName = (typeof ENVIRONMENTS)[number]

export const environmentText = (name: EnvironmentName): string =>
  readFileSync(join(ROOT, 'environments', `${name}.json`), 'utf8')

/** Sizes of the egress proxy for an environment in mode `proxy`. */
export const PROXY_SIZE = {
  replicas: 2,
  maxReplicas: 4,
  cpuTargetPercent: 70,
  container: { cpuMillis: 100, maxCpuMillis: 1000, memoryMib: 256, ephemeralMib: 64 },
}

/** On Azure, the proxy needs the container that inserts credentials. */
export const proxySizeFor = ({ infra }: Loose) => ({
  ...PROXY_SIZE,
  ...(infra.azure && { credentials: PROXY_SIZE.container }),
})

/** Changes the egress mode of an environment file, and the sizes and models that the mode needs. */
/** The identity with which AgentHost reads the vault of users' tokens, in mode `fqdn`. */
export const READER = 'c338a70d-ab7d-4a8e-83d1-64a71a4ed13b'

export function setEgress(value: Loose, egress: object): void {
  value['egress'] = egress
  if ('mode' in egress && egress.mode === 'closed') delete value['models']
  const { azure } = value['infra']
  if (azure && 'mode' in egress && egress.mode === 'fqdn') azure.identities.agentHost = { clientId: READER }
  if ('proxyAddress' in egress) value['sizes'].egressProxy = proxySizeFor(value)
  else delete value['sizes'].egressProxy
}

/** Loads a committed environment in the same way as synth. */
export function anEnvironment(name: EnvironmentName): Environment {
  const loaded = loadEnvironment(name, environmentText(name))
  if (!loaded.ok) throw new Error(loaded.mistakes.join('\n'))
  return loaded.environment
}

/** Loads a committed environment after `change` edited it. */
export function loadedWith(name: EnvironmentName, change: (value: Loose) => void): Environment {
  const value = JSON.parse(environmentText(name)) as Loose
  change(value)
  const loaded = loadEnvironment(name, JSON.stringify(value))
  if (!loaded.ok) throw new Error(loaded.mistakes.join('\n'))
  return loaded.environment
}

/** Returns the mistakes that synth reports after `change` edited a committed environment. */
export function mistakesWith(name: EnvironmentName, change: (value: Loose) => void): readonly string[] {
  const value = JSON.parse(environmentText(name)) as Loose
  change(value)
  const loaded = loadEnvironment(name, JSON.stringify(value))
  return loaded.ok ? [] : loaded.mistakes
}

// biome-ignore lint/suspicious/noExplicitAny: a file with any mistake has no type
export type Loose = Record<string, any>

/** The committed policy, but the proxy passes TLS to `api.github.com` on unread. */
export function unreadPolicy(): EgressPolicy {
  const { classes } = readEgressPolicy()
  const agent = classes.agent.map(({ accepts, ...rest }) =>
    rest.host === 'api.github.com' ? rest : { ...rest, ...(accepts && { accepts }) },
  )
  return { classes: { ...classes, agent } }
}

/** The committed list, with a repository of GitHub for commands. AgentHost keeps its entry for the API of GitHub. */
export const policyWithRepository = (): EgressPolicy => loadEgressPolicy(policyTextWithRepository())

export function policyTextWithRepository(): string {
  const text = readEgressPolicyText()
  const setup = /^ {4}- host: github\.com\n(?: {6}.*\n)+/m
  const entry =
    '    - preset: github\n      mode: full\n      repositories: [team/app]\n      credential: github\n      why: the repository of the test\n'
  if (!setup.test(text)) throw new Error('the committed list has no entry for github.com')
  return text.replace(setup, entry)
}

export const appsOf = (environment: Environment): RenderedApp[] =>
  renderEnvironment(environment, readEgressPolicy())

export interface DamageableTree extends Omit<CheckedTree, 'objects'> {
  readonly objects: { object: KubeObject; path: string }[]
}

/** Returns a copy of the objects that the checks receive. A test may damage this copy. */
export function aTree(environment: Environment): DamageableTree {
  const objects = structuredClone(placedObjects(appsOf(environment))) as {
    object: KubeObject
    path: string
  }[]
  return { environment, objects }
}

/** Returns the object with this kind and name. Throws if it does not exist. */
export function objectIn(tree: CheckedTree, kind: string, name?: string): KubeObject {
  const found = tree.objects.find(
    ({ object }) => object.kind === kind && (name === undefined || object.metadata.name === name),
  )
  if (!found) throw new Error(`the tree has no ${kind} ${name ?? ''}`)
  return found.object as KubeObject
}
