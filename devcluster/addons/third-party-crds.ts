import { AZURE_POD_MONITOR } from '../../contracts/pod-monitor.ts'
import { ensureTools } from '../build/ensure-tools.ts'
import type { ModuleName } from '../build/modules.ts'
import type { KubeObject } from '../client/kube-object.ts'
import { readManifests } from '../client/manifests.ts'

type Source = readonly [ModuleName, string]

const THIRD_PARTY: readonly Source[] = [
  ['crds', 'gateway-api'],
  ['crds', 'prometheus-operator'],
  ['crds', 'argo-cd'],
  ['crds', 'flux-kustomize'],
  ['crds', 'flux-source'],
]

/** CRDs for the kinds of the tree that our clusters do not serve by default. */
export const thirdPartyCrds = async (): Promise<KubeObject[]> => withAzure(await readCrds(THIRD_PARTY))

/**
 * The fields of the operator's PodMonitor that Azure's CRD also has (ama-metrics-podmonitor-crd.yaml in
 * Azure/prometheus-collector).
 */
const IN_AZURE = {
  spec: /^(?:attachMetadata|jobLabel|label(?:NameLength|ValueLength)?Limit|namespaceSelector|podMetricsEndpoints|podTargetLabels|sampleLimit|selector|targetLimit)$/,
  endpoint:
    /^(?:authorization|basicAuth|bearerTokenSecret|enableHttp2|filterRunning|followRedirects|honorLabels|honorTimestamps|interval|metricRelabelings|oauth2|params|path|port|proxyUrl|relabelings|scheme|scrapeTimeout|targetPort|tlsConfig)$/,
}

/** Adds the PodMonitor CRD of Azure's collector: the operator's CRD in Azure's API group, without newer fields. */
function withAzure(crds: KubeObject[]): KubeObject[] {
  const [group = ''] = AZURE_POD_MONITOR.apiVersion.split('/')
  const own = crds.find(({ metadata }) => metadata.name === 'podmonitors.monitoring.coreos.com')
  if (!own) throw new Error('the operator has no PodMonitor')
  const name = `podmonitors.${group}`
  const azure: KubeObject = { ...structuredClone(own), metadata: { ...own.metadata, name } }
  azure['spec'].group = group
  for (const { schema } of azure['spec'].versions) {
    const { spec } = schema.openAPIV3Schema.properties
    keep(spec.properties, IN_AZURE.spec)
    keep(spec.properties.podMetricsEndpoints.items.properties, IN_AZURE.endpoint)
  }
  return [...crds, azure]
}

function keep(properties: Record<string, unknown>, known: RegExp): void {
  for (const name of Object.keys(properties)) if (!known.test(name)) delete properties[name]
}

/** The CRDs in folders of our tools. */
export async function readCrds(sources: readonly Source[]): Promise<KubeObject[]> {
  const tools = await ensureTools(['crds'], () => {})
  return sources
    .flatMap(([module, folder]) => readManifests(tools.share(module, folder)))
    .filter(({ kind }) => kind === 'CustomResourceDefinition')
}
