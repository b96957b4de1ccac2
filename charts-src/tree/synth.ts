import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { OF_EACH_OWNER } from '../../contracts/egress.ts'
import { insertsGitHubToken } from '../../policies/agent/egress/github.ts'
import {
  type EgressPolicy,
  EgressPolicyError,
  loadEgressPolicy,
  readEgressPolicyText,
} from '../../policies/agent/egress/load.ts'
import { resolveEgress } from '../../policies/agent/egress/resolve.ts'
import { checkReachability } from '../access-matrix/check-reachability.ts'
import { reachabilityPage } from '../access-matrix/page.ts'
import { checkTree } from '../checks/check-tree.ts'
import { describeFinding } from '../checks/checked-tree.ts'
import { reasonForCredentials } from '../environment/credentials-container.ts'
import { loadEnvironment } from '../environment/load-environment.ts'
import { placeholderValues } from '../environment/placeholder-values.ts'
import type { Environment } from '../environment/schema.ts'
import { forbiddenEndpoints } from '../network/private-endpoints.ts'
import { compareTree, type Difference } from './compare-tree.ts'
import { renderEnvironment } from './render.ts'
import { placedObjects, type TreeFiles, treeFiles } from './tree-files.ts'
import { recoverTree, wholeTree, writeTree } from './write-tree.ts'

export interface Project {
  /** Folder that contains `environments/` and `gitops/`. */
  readonly root: string
  /** Text of the egress policy. @default the file of this repository */
  readonly egress?: string
}

export interface Rendered {
  readonly name: string
  readonly files: TreeFiles
}

export type Rendering =
  | { readonly ok: true; readonly trees: readonly Rendered[] }
  | { readonly ok: false; readonly mistakes: readonly string[] }

export function environmentNames({ root }: Project): string[] {
  const folder = join(root, 'environments')
  const files = existsSync(folder) ? readdirSync(folder) : []
  return files
    .filter((file) => file.endsWith('.json'))
    .map((file) => file.slice(0, -'.json'.length))
    .sort()
}

/**
 * Renders in memory. With one mistake in any environment nothing is rendered, and all mistakes are reported
 * together.
 */
export function renderProject(project: Project, wanted: readonly string[]): Rendering {
  const loaded = wanted.map((name) => ({ name, ...loadFile(project, name) }))
  const egress = loadEgress(project)
  const mistakes = [
    ...loaded.flatMap((entry) =>
      entry.ok ? [] : entry.mistakes.map((mistake) => `environments/${entry.name}.json: ${mistake}`),
    ),
    ...(egress.ok ? [] : [egress.mistake]),
  ]
  if (!egress.ok || mistakes.length > 0) return { ok: false, mistakes }
  const trees = loaded.flatMap((entry) => (entry.ok ? [renderTree(entry.environment, egress.policy)] : []))
  const faults = trees.flatMap((tree) => tree.faults)
  return faults.length > 0 ? { ok: false, mistakes: faults } : { ok: true, trees }
}

type Egress =
  | { readonly ok: true; readonly policy: EgressPolicy }
  | { readonly ok: false; readonly mistake: string }

function loadEgress({ egress = readEgressPolicyText() }: Project): Egress {
  try {
    return { ok: true, policy: loadEgressPolicy(egress) }
  } catch (error) {
    if (error instanceof EgressPolicyError) return { ok: false, mistake: error.message }
    throw error
  }
}

function renderTree(environment: Environment, egress: EgressPolicy): Rendered & { faults: string[] } {
  const { name } = environment
  const apps = renderEnvironment(environment, egress)
  const placed = placedObjects(apps)
  const objects = placed.map(({ object }) => object)
  const page = ['reachability.md', reachabilityPage(objects, environment, egress)] as const
  const findings = checkTree({ environment, objects: placed })
  return {
    name,
    files: new Map([...treeFiles(environment, apps), page]),
    faults: [
      ...findings.map((finding) => describeFinding(name, finding)),
      ...checkReachability(objects, environment, egress),
      ...missingCredentials(environment, egress),
      ...unreadTokens(environment, egress),
      ...forbiddenEndpoints(environment, resolveEgress(egress, placeholderValues(environment))).map(
        (fault) =>
          `environments/${name}.json: ${fault}: correct policies/agent/egress.yaml or egress.upstreamProxy`,
      ),
    ],
  }
}

/** Credentials that the list names and that the proxy of this environment could not insert. */
function missingCredentials(environment: Environment, { classes }: EgressPolicy): string[] {
  const { mode, credentials = [] } = environment.egress
  if (mode !== 'proxy') return []
  const known = new Set(credentials.map(({ id }) => id))
  const hasContainer = reasonForCredentials(environment) !== undefined
  const faults = [...classes.agent, ...classes.command].flatMap(({ credential, accepts = 'registry' }) => {
    if (credential === undefined || known.has(credential)) return []
    // The API would not start without a credential of the operator.
    if (credential !== OF_EACH_OWNER[accepts])
      return `does not list ${credential}, which policies/agent/egress.yaml names`
    return hasContainer
      ? []
      : `is missing, and policies/agent/egress.yaml names ${credential}, the credential of each owner, which nothing inserts then: add "credentials": [] to egress, and sizes.egressProxy.credentials`
  })
  return [...new Set(faults)].map(
    (fault) => `environments/${environment.name}.json: egress.credentials: ${fault}`,
  )
}

/** In mode `proxy`, AgentHost has no identity for the vault of users' tokens. */
function unreadTokens({ name, egress: { mode }, infra, models }: Environment, { classes }: EgressPolicy) {
  if (mode !== 'proxy' || !infra.azure || !models.copilot) return []
  if (insertsGitHubToken(classes.agent.filter(({ caller }) => caller === 'agent-host'))) return []
  return [
    `environments/${name}.json: models.copilot: in mode proxy, only the egress proxy has the tokens of owners: in policies/agent/egress.yaml, give each entry of AgentHost for GitHub and Copilot "accepts: github"`,
  ]
}

function loadFile({ root }: Project, name: string) {
  const path = join(root, 'environments', `${name}.json`)
  if (!existsSync(path)) return { ok: false as const, mistakes: ['there is no such file'] }
  return loadEnvironment(name, readFileSync(path, 'utf8'))
}

const treeFolder = ({ root }: Project, name: string) => join(root, 'gitops', name)

/**
 * Returns the differences between committed and rendered trees. A tree without an environment file differs as
 * a whole.
 */
export function compareProject(project: Project, trees: readonly Rendered[]): Map<string, Difference[]> {
  return new Map(
    trees.map(({ name, files }) => [name, compareTree(wholeTree(treeFolder(project, name)), files)]),
  )
}

/** Names of trees without an environment file. */
export function orphanTrees(project: Project): string[] {
  const folder = join(project.root, 'gitops')
  if (!existsSync(folder)) return []
  const known = environmentNames(project)
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && !entry.name.startsWith('.') && !known.includes(entry.name))
    .map(({ name }) => name)
}

/** Writes the trees that differ and returns their names. */
export function writeProject(project: Project, trees: readonly Rendered[]): string[] {
  mkdirSync(join(project.root, 'gitops'), { recursive: true })
  for (const { name } of trees) recoverTree(treeFolder(project, name))
  const differences = compareProject(project, trees)
  const stale = trees.filter(({ name }) => differences.get(name)?.length)
  for (const { name, files } of stale) writeTree(treeFolder(project, name), files)
  return stale.map(({ name }) => name)
}
