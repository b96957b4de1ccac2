import type { KubeObject } from '../kube-object.ts'
import type { Kubectl } from './kubectl.ts'
import { preflight } from './preflight.ts'
import { deleteLeftover, findLeftovers } from './prune.ts'
import { readTreeObjects } from './read-tree.ts'
import { serverApply, serverRefusals } from './server-apply.ts'

export interface ApplyDeps {
  readonly kubectl: Kubectl
  readonly say: (line: string) => void
  /** Compares without applying. */
  readonly isCheck: boolean
}

/**
 * Applies a rendered tree to a cluster. Returns false, with nothing applied, when the cluster cannot accept
 * the tree.
 */
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
  const refusals = await serverRefusals(kubectl, folder, objects)
  for (const refusal of refusals) say(refusal)
  if (refusals.length > 0) {
    say('nothing was applied')
    return false
  }
  const answer = await serverApply(kubectl, folder)
  say(`applied ${answer.trim().split('\n').length} objects`)
  const { pruned, kept } = await findLeftovers(kubectl, objects)
  for (const object of pruned) {
    await deleteLeftover(kubectl, object)
    say(`deleted ${titleOf(object)}, which left the tree`)
  }
  for (const object of kept) say(`kept ${titleOf(object)}, which left the tree: kubectl delete it yourself`)
  return true
}

const titleOf = ({ kind, metadata }: KubeObject) =>
  `${kind} ${metadata.namespace === undefined ? '' : `${metadata.namespace}/`}${metadata.name}`
