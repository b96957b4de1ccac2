import { CONTAINERS } from '../../contracts/names.ts'
import { EGRESS_PROXY_PORT } from '../../contracts/ports.ts'
import { workloads } from '../workloads.ts'
import type { Check, CheckedTree, Finding } from './checked-tree.ts'
import { listAt, textAt } from './read-fields.ts'
import { containersOf, podsOf } from './tree-pods.ts'

const OPEN = 'charts-src/constructs/sandbox-env.ts'
const RELAY_KEY = 'AGENTWEAVER_EGRESS_ADDRESS'

/**
 * In mode `proxy`, AgentHost in agent sandboxes and every toolbox must have the address of the proxy's Service, because a
 * sandbox has no resolver. No other container may have a proxy.
 */
export const wayOut: Check = (tree) => {
  const agents = workloads(tree.environment.slice).sandbox('agent').labels
  const isProxied = tree.environment.egress.mode === 'proxy'
  return podsOf(tree.objects).flatMap(({ path, labels, spec }) => {
    const isAgent = Object.entries(agents).every(([key, value]) => labels[key] === value)
    return containersOf(spec).flatMap(({ name, value }): Finding[] => {
      const faults = [
        ...faultsOf(tree, value, isProxied && isAgent && name === CONTAINERS.agentHost),
        ...relayFaults(tree, value, isProxied && name === CONTAINERS.toolbox),
      ]
      return faults.map((fault) => ({ path, message: `${name}: ${fault}`, open: OPEN }))
    })
  })
}

const told = (container: unknown, key: string) =>
  listAt(container, 'env')
    .filter((entry) => textAt(entry, 'name') === key)
    .map((entry) => textAt(entry, 'value'))[0]

/** The relay of the toolbox passes the connections of commands on to the proxy. */
function relayFaults(tree: CheckedTree, container: unknown, needs: boolean): string[] {
  const address = told(container, RELAY_KEY)
  if (!needs) return address === undefined ? [] : [`${RELAY_KEY} names a proxy where none is used`]
  if (address === undefined) return [`${RELAY_KEY} is missing: commands have no other way out`]
  return addressesOf(tree).includes(address)
    ? []
    : [`${RELAY_KEY} is ${address}, where no egress proxy listens`]
}

function faultsOf(tree: CheckedTree, container: unknown, needs: boolean): string[] {
  const proxy = told(container, 'HTTPS_PROXY')
  if (!needs) return proxy === undefined ? [] : ['HTTPS_PROXY names a proxy where none is used']
  if (proxy === undefined) return ['HTTPS_PROXY is missing: in mode proxy there is no other way out']
  return [
    ...(addressesOf(tree).some((address) => proxy === `http://${address}`)
      ? []
      : [`HTTPS_PROXY is ${proxy}, where no egress proxy listens`]),
    ...(told(container, 'NO_PROXY') === undefined
      ? ['NO_PROXY is missing: connections inside the pod must not use the proxy']
      : []),
  ]
}

/** Returns the address and the port of the egress proxy's Service. */
function addressesOf({ environment, objects }: CheckedTree): string[] {
  const { name, namespace } = workloads(environment.slice).egressProxy
  return objects.flatMap(({ object }) => {
    const isProxy =
      object.kind === 'Service' && object.metadata.name === name && object.metadata.namespace === namespace
    const address = isProxy ? textAt(object, 'spec', 'clusterIP') : undefined
    if (address === undefined) return []
    return [`${address.includes(':') ? `[${address}]` : address}:${EGRESS_PROXY_PORT}`]
  })
}
