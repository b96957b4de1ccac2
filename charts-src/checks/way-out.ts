import { CONTAINERS } from '../../contracts/names.ts'
import { EGRESS_PROXY_PORT } from '../../contracts/ports.ts'
import { workloads } from '../workloads.ts'
import type { Check, CheckedTree, Finding } from './checked-tree.ts'
import { listAt, textAt } from './read-fields.ts'
import { containersOf, podsOf } from './tree-pods.ts'

const OPEN = 'charts-src/constructs/sandbox-env.ts'

/**
 * In mode `proxy`, AgentHost in agent sandboxes must have the proxy's Service address in `HTTPS_PROXY`, because a
 * sandbox has no resolver. No other container may have a proxy.
 */
export const wayOut: Check = (tree) => {
  const agents = workloads(tree.environment.slice).sandbox('agent').labels
  return podsOf(tree.objects).flatMap(({ path, labels, spec }) => {
    const isAgent = Object.entries(agents).every(([key, value]) => labels[key] === value)
    return containersOf(spec).flatMap(({ name, value }): Finding[] => {
      const needs = isAgent && name === CONTAINERS.agentHost && tree.environment.egress.mode === 'proxy'
      return faultsOf(tree, value, needs).map((fault) => ({ path, message: `${name}: ${fault}`, open: OPEN }))
    })
  })
}

function faultsOf(tree: CheckedTree, container: unknown, needs: boolean): string[] {
  const told = (key: string) =>
    listAt(container, 'env')
      .filter((entry) => textAt(entry, 'name') === key)
      .map((entry) => textAt(entry, 'value'))[0]
  const proxy = told('HTTPS_PROXY')
  if (!needs) return proxy === undefined ? [] : ['HTTPS_PROXY names a proxy where none is used']
  if (proxy === undefined) return ['HTTPS_PROXY is missing: in mode proxy there is no other way out']
  return [
    ...(addressesOf(tree).includes(proxy) ? [] : [`HTTPS_PROXY is ${proxy}, where no egress proxy listens`]),
    ...(told('NO_PROXY') === undefined
      ? ['NO_PROXY is missing: what is in the pod is not behind the proxy']
      : []),
  ]
}

/** Returns the URLs of the egress proxy's Services. */
function addressesOf({ environment, objects }: CheckedTree): string[] {
  const { name, namespace } = workloads(environment.slice).egressProxy
  return objects.flatMap(({ object }) => {
    const isProxy =
      object.kind === 'Service' && object.metadata.name === name && object.metadata.namespace === namespace
    const address = isProxy ? textAt(object, 'spec', 'clusterIP') : undefined
    if (address === undefined) return []
    return [`http://${address.includes(':') ? `[${address}]` : address}:${EGRESS_PROXY_PORT}`]
  })
}
