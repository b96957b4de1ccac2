import type { Placed } from '../checks/checked-tree.ts'
import type { KubeObject } from '../kube-object.ts'
import type { Kubectl } from './kubectl.ts'
import { preflight } from './preflight.ts'
import { deleteLeftover, findLeftovers } from './prune.ts'
import { readTreeObjects } from './read-tree.ts'

/** The name under which fields of ours are owned on the server. */
const FIELD_MANAGER = 'agentweaver-gitops'

export interface ApplyDeps {
  readonly kubectl: Kubectl
  readonly say: (line: string) => void
  /** Compare only. */
  readonly isCheck: boolean
}

/** Brings a cluster to a rendered tree. False if the cluster does not fit the tree: nothing was applied then. */
export async function applyTree(folder: string, { kubectl, say, isCheck }: ApplyDeps): Promise<boolean> {
  const objects = readTreeObjects(folder)
  const findings = await preflight(kubectl, objects)
  for (const { path, message } of findings) say(`${path}: ${message}`)
  if (findings.length > 0) {
    say('nothing was applied')
    return false
  }
  say(`${objects.length} objects fit the cluster's definitions`)
  if (isCheck) return true
  const refusals = await dryRun(kubectl, folder, objects)
  for (const refusal of refusals) say(refusal)
  if (refusals.length > 0) {
    say('nothing was applied')
    return false
  }
  const answer = await kubectl(...applyCommand(folder))
  say(`applied ${answer.trim().split('\n').length} objects`)
  const { pruned, kept } = await findLeftovers(kubectl, objects)
  for (const object of pruned) {
    await deleteLeftover(kubectl, object)
    say(`deleted ${titleOf(object)}, which left the tree`)
  }
  for (const object of kept) say(`kept ${titleOf(object)}, which left the tree: kubectl delete it yourself`)
  return true
}

/** What kubectl says beside its errors. */
const REMARK = /^(?:$|[IW]\d{4} |Warning:)/

const applyCommand = (folder: string) => [
  'apply',
  `--kustomize=${folder}`,
  '--server-side',
  `--field-manager=${FIELD_MANAGER}`,
  '--validate=strict',
]

/**
 * What the server refuses of the tree, asked for without applying anything. What would stand in a namespace that this
 * tree is about to make cannot be asked for yet, and is answered by the real apply.
 */
async function dryRun(kubectl: Kubectl, folder: string, objects: readonly Placed[]): Promise<string[]> {
  const namespaces = objects
    .filter(({ object }) => object.kind === 'Namespace')
    .map(({ object }) => object.metadata.name)
  const notYet = namespaces.map((name) => `(NotFound): namespaces "${name}" not found`)
  try {
    await kubectl(...applyCommand(folder), '--dry-run=server')
    return []
  } catch (error) {
    const lines = error instanceof Error ? error.message.split('\n') : [String(error)]
    return lines.filter((line) => !REMARK.test(line) && !notYet.some((end) => line.endsWith(end)))
  }
}

const titleOf = ({ kind, metadata }: KubeObject) =>
  `${kind} ${metadata.namespace === undefined ? '' : `${metadata.namespace}/`}${metadata.name}`
