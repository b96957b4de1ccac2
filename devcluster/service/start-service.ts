import type { AddressInfo } from 'node:net'
import { createKubeClient } from '../client/kube-client.ts'
import { readKubeconfig } from '../client/kubeconfig.ts'
import type { Cluster } from '../cluster.ts'
import { GATEWAY_LABELS, openTunnel, startRelayPod } from './gateway-pod.ts'
import { installService } from './install-service.ts'
import { openLocalEndpoint } from './local-endpoint.ts'
import { CONTROL_PLANE } from './names.ts'
import { waitForApi, waitForPools } from './readiness.ts'

export interface RunningService {
  readonly url: string
  readonly apiKey: string
  readonly apiKeyFile: string
  stop(): Promise<void>
}

/** Installs the product in a running cluster, waits until it accepts runs, and opens a port of this machine to it. */
export async function startService(
  cluster: Cluster,
  say: (line: string) => void,
  images?: string,
): Promise<RunningService> {
  const client = createKubeClient(readKubeconfig(cluster.kubeconfig))
  const undo: (() => unknown)[] = [() => client.close()]
  const stop = async () => {
    for (const step of undo.splice(0).reverse()) await step()
  }
  try {
    const { apiKey, apiKeyFile, database } = await installService({ cluster, client, images }, say)
    undo.push(() => database.stop())
    say('waiting for two replicas of the API')
    await waitForApi(client)
    say('waiting for the warm pools')
    await waitForPools(client)
    const path = { apiVersion: 'v1', plural: 'services', namespace: CONTROL_PLANE, name: 'agentweaver-api' }
    const { clusterIP, ports } = (await client.get(path))['spec'] as {
      clusterIP: string
      ports: { port: number }[]
    }
    const relay = await startRelayPod(client, CONTROL_PLANE, GATEWAY_LABELS)
    const tunnel = await openTunnel(relay, `${clusterIP}:${ports[0]?.port}`)
    undo.push(() => tunnel.close())
    const endpoint = await openLocalEndpoint(cluster.slot, (tunnel.address() as AddressInfo).port)
    undo.push(() => endpoint.stop())
    return { url: endpoint.url, apiKey, apiKeyFile, stop }
  } catch (error) {
    await stop()
    throw error
  }
}
