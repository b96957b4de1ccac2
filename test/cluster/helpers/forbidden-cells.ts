import { API_PORT, EGRESS_HEALTH_PORT } from '../../../contracts/ports.ts'
import type { WatchedCell } from '../packets/watch.ts'
import type { DeployedApi } from './deployed-api.ts'
import { GIT_PLACE } from './git-outside.ts'

interface Places {
  /** Address of a pod of the egress proxy. */
  readonly proxy: string
  /** Address of a pod of the API. */
  readonly replica: string
}

/** Places that a sandbox must not reach without the proxy, over TCP and over UDP. The first four answer the node. */
export async function forbiddenCells(api: DeployedApi, { proxy, replica }: Places): Promise<WatchedCell[]> {
  const endpoint = async (namespace: string, name: string): Promise<[string, number]> => {
    const path = { apiVersion: 'v1', plural: 'endpoints', namespace, name }
    const { subsets } = await api.rig.client.get(path)
    return [subsets[0].addresses[0].ip, subsets[0].ports[0].port]
  }
  const places = [
    ['a host of the list, without the proxy', GIT_PLACE.address, GIT_PLACE.port] as const,
    ['the health port of the proxy', proxy, EGRESS_HEALTH_PORT] as const,
    ['the API', replica, API_PORT] as const,
    ['the API server', ...(await endpoint('default', 'kubernetes'))] as const,
    ['the resolver', ...(await endpoint('kube-system', 'kube-dns'))] as const,
    ['the Service of the resolver', '10.96.0.10', 53] as const,
    ['the metadata', '169.254.169.254', 80] as const,
  ]
  const cells = (['TCP', 'UDP'] as const).flatMap((protocol) =>
    places.map(([title, host, port]) => ({ title, protocol, host, port, isMeant: false })),
  )
  // Inside the pod, Cilium itself answers UDP to a Service that has only TCP: nothing leaves.
  const service = { title: 'the Service of the API server', host: '10.96.0.1', port: 443 }
  return [...cells, { ...service, protocol: 'TCP', isMeant: false }]
}
