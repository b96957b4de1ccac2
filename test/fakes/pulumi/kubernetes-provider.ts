import { createHash } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { parse } from 'yaml'
import type { Cloud, CloudObject } from './cloud.ts'
import type { Checked, Compared, Named, StandIn, State } from './stand-in.ts'
import {
  differences,
  hasUnknown,
  type Json,
  overlay,
  type Properties,
  UNKNOWN,
  valueAt,
  withoutNulls,
  withValueAt,
} from './values.ts'
import { RpcError, STATUS } from './wire.ts'

/** Cluster-scoped kinds that a platform uses. */
const CLUSTER_SCOPED = new Set([
  'APIService',
  'ClusterRole',
  'ClusterRoleBinding',
  'CustomResourceDefinition',
  'GatewayClass',
  'IngressClass',
  'MutatingWebhookConfiguration',
  'Namespace',
  'PersistentVolume',
  'PriorityClass',
  'RuntimeClass',
  'StorageClass',
  'ValidatingAdmissionPolicy',
  'ValidatingAdmissionPolicyBinding',
  'ValidatingWebhookConfiguration',
])
const OWN_GROUPS =
  /^(?:v1|apps\/|batch\/|autoscaling\/|policy\/|(?:admissionregistration|apiextensions|apiregistration|certificates|coordination|discovery|events|networking|node|rbac\.authorization|scheduling|storage|flowcontrol\.apiserver)\.k8s\.io\/)/
const GIVEN_NAMESPACES = new Set(['default', 'kube-node-lease', 'kube-public', 'kube-system'])

/**
 * Fields that the provider cannot change in place, from its `forceNewProperties`, for the kinds that a platform uses.
 */
const REPLACED: Readonly<Record<string, readonly string[]>> = {
  ClusterRoleBinding: ['roleRef'],
  ConfigMap: ['binaryData', 'data'],
  DaemonSet: ['spec.selector'],
  Deployment: ['spec.selector'],
  Job: ['spec.selector', 'spec.template'],
  PersistentVolumeClaim: ['spec'],
  RoleBinding: ['roleRef'],
  Secret: ['data', 'stringData', 'type'],
  Service: ['spec.clusterIP'],
  StatefulSet: ['spec.selector', 'spec.serviceName', 'spec.volumeClaimTemplates'],
  StorageClass: ['parameters', 'provisioner'],
}
const NAMES = ['apiVersion', 'kind', 'metadata.name', 'metadata.namespace']

const text = (value: Json | undefined) => (typeof value === 'string' ? value : '')
const isTrue = (value: Json | undefined) => value === true || value === 'true'
const hash = (value: string) => createHash('sha256').update(value).digest('hex')
const uid = (id: string) => hash(id).replace(/^(.{8})(.{4})(.{4})(.{4})(.{12}).*$/, '$1-$2-$3-$4-$5')
const covers = (prefix: string, path: string) =>
  path === prefix || path.startsWith(`${prefix}.`) || path.startsWith(`${prefix}[`)

interface KubeConfig {
  readonly clusters?: readonly { readonly name: string; readonly cluster: { readonly server: string } }[]
  readonly contexts?: readonly { readonly name: string; readonly context: { readonly cluster: string } }[]
  readonly 'current-context'?: string
}

/** Host of the cluster in a kubeconfig; undefined if the kubeconfig has no cluster. */
export function hostOf(kubeconfig: string): string | undefined {
  const config = parse(kubeconfig) as KubeConfig | null
  const current = config?.contexts?.find(({ name }) => name === config['current-context'])
  const cluster = config?.clusters?.find(({ name }) => name === (current?.context.cluster ?? name))
  return cluster === undefined ? undefined : new URL(cluster.cluster.server).hostname
}

const idOf = (inputs: Properties): string => {
  const name = text(valueAt(inputs, 'metadata.name'))
  const namespace = text(valueAt(inputs, 'metadata.namespace'))
  return namespace === '' ? name : `${namespace}/${name}`
}
/** Adds the provider's generated name to an object without a name, and the annotation that marks it as generated. */
function autoNamed(news: Properties, name: Json): Properties {
  const annotations = {
    ...(valueAt(news, 'metadata.annotations') as Properties | undefined),
    'pulumi.com/autonamed': 'true',
  }
  return withValueAt(withValueAt(news, 'metadata.name', name), 'metadata.annotations', annotations)
}
const failed = (message: string) => new RpcError(STATUS.unknown, message)

/** Adds the fields that the API server sets. */
function served(id: string, inputs: Properties, before?: Properties): Properties {
  const generation = Number(valueAt(before, 'metadata.generation') ?? 0) + 1
  return overlay(inputs, {
    metadata: {
      uid: uid(id),
      creationTimestamp: '2026-01-01T00:00:00Z',
      resourceVersion: String(generation),
      generation,
    },
  }) as Properties
}

/** A fake `kubernetes` provider: it simulates an API server with objects in a folder, one cluster for each host. */
export function kubernetesStandIn(cloud: Cloud): StandIn {
  let host: string | undefined
  let mayForget = false

  const clusterObject = () =>
    host === undefined
      ? undefined
      : cloud.list().find(({ outputs }) => [outputs['fqdn'], outputs['privateFQDN']].includes(host))
  const isHidden = () => cloud.isOutside() && clusterObject()?.outputs['privateFQDN'] === host
  const isThere = () => clusterObject() !== undefined && !isHidden()
  function reach(): string {
    if (host !== undefined && isThere()) return host
    throw failed(
      'configured Kubernetes cluster is unreachable: unable to load schema information from the API server',
    )
  }
  const place = (type: string, id: string) => `kubernetes:${host}:${type.slice('kubernetes:'.length)}:${id}`
  const others = () => cloud.list().filter((object) => object.id.startsWith(`kubernetes:${host}:`))

  /** Azure installs Cilium's types with its data plane, and its collector's with the metrics. */
  const hasCilium = () => valueAt(clusterObject()?.inputs, 'networkProfile.networkDataplane') === 'cilium'
  const hasMetrics = () => valueAt(clusterObject()?.inputs, 'azureMonitorProfile.metrics.enabled') === true
  const azureInstalls: Readonly<Record<string, () => boolean>> = {
    'cilium.io': hasCilium,
    'azmonitoring.coreos.com': hasMetrics,
  }
  function knows({ type }: Named): boolean {
    const [, group = '', kind = ''] = type.split(':')
    if (OWN_GROUPS.test(group === 'core/v1' ? 'v1' : group)) return true
    if (azureInstalls[group.split('/')[0] ?? '']?.()) return true
    return others().some(
      ({ inputs }) =>
        inputs['kind'] === 'CustomResourceDefinition' &&
        valueAt(inputs, 'spec.names.kind') === kind &&
        valueAt(inputs, 'spec.group') === group.split('/')[0],
    )
  }
  /** A cluster extension creates the namespace of its release. */
  const isReleasedInto = (namespace: string) =>
    cloud
      .list()
      .some(
        ({ id, inputs }) =>
          id.startsWith(`${clusterObject()?.id}/`) &&
          valueAt(inputs, 'scope.cluster.releaseNamespace') === namespace,
      )
  function hasNamespace(inputs: Properties): boolean {
    const namespace = text(valueAt(inputs, 'metadata.namespace'))
    if (namespace === '' || GIVEN_NAMESPACES.has(namespace) || isReleasedInto(namespace)) return true
    return others().some(({ inputs: other }) => other['kind'] === 'Namespace' && idOf(other) === namespace)
  }
  function put(named: Named, inputs: Properties): CloudObject {
    const id = idOf(inputs)
    const [, group = '', kind = ''] = named.type.split(':')
    if (!knows(named)) throw failed(`no matches for kind "${kind}" in version "${group}"`)
    if (!hasNamespace(inputs)) throw failed(`namespaces "${id.split('/')[0]}" not found`)
    const at = place(named.type, id)
    const object = { id: at, type: named.type, inputs, outputs: served(at, inputs, cloud.get(at)?.outputs) }
    cloud.put(object)
    return object
  }
  function removeBelow(inputs: Properties): void {
    const isNamespace = inputs['kind'] === 'Namespace'
    const isDefinition = inputs['kind'] === 'CustomResourceDefinition'
    for (const other of others()) {
      const isInside = isNamespace && valueAt(other.inputs, 'metadata.namespace') === idOf(inputs)
      const isOfKind = isDefinition && other.inputs['kind'] === valueAt(inputs, 'spec.names.kind')
      if (isInside || isOfKind) cloud.remove(other.id)
    }
  }

  return {
    name: 'kubernetes',
    acceptsSecrets: true,
    checkConfig: (news) => ({ inputs: news, failures: [] }),
    diffConfig(olds, news): Compared {
      const changes = differences(olds, news)
      const identify = (args: Properties) => args['clusterIdentifier'] ?? clusterOf(args)
      const isOther = identify(olds) !== identify(news) && identify(news) !== UNKNOWN
      const replaces = isOther
        ? [...changes.keys()].filter((key) => /^(?:kubeconfig|clusterIdentifier)$/.test(key))
        : []
      return { changes, replaces, deleteBeforeReplace: false }
    },
    configure(args) {
      host = hostOf(text(args['kubeconfig']))
      mayForget = isTrue(args['deleteUnreachable'])
    },
    check(named, olds, news): Checked {
      const kind = named.type.split(':').at(-1) ?? ''
      const name = valueAt(olds, 'metadata.name') ?? `${named.name}-${hash(named.urn).slice(0, 8)}`
      const isNamed = valueAt(news, 'metadata.name') !== undefined
      const isPlaced = CLUSTER_SCOPED.has(kind) || valueAt(news, 'metadata.namespace') !== undefined
      const withName = isNamed ? news : autoNamed(news, name)
      const inputs = isPlaced ? withName : withValueAt(withName, 'metadata.namespace', 'default')
      return { inputs: withoutNulls(inputs), failures: [] }
    },
    diff({ type }, old, news): Compared {
      const changes = differences(withoutNulls(old.inputs), withoutNulls(news))
      const kind = type.split(':').at(-1) ?? ''
      const fixed = [...NAMES, ...(REPLACED[kind] ?? [])]
      const replaces = [...changes.keys()].filter((path) => fixed.some((prefix) => covers(prefix, path)))
      return {
        changes,
        replaces,
        deleteBeforeReplace: replaces.length > 0 && idOf(old.inputs) === idOf(news),
      }
    },
    preview(_, inputs, old) {
      const metadata = {
        uid: UNKNOWN,
        resourceVersion: UNKNOWN,
        creationTimestamp: UNKNOWN,
        generation: UNKNOWN,
      }
      const known = valueAt(old?.outputs, 'metadata.uid')
      const planned = known === undefined ? metadata : { ...metadata, uid: known }
      return { ...(overlay({ metadata: planned }, inputs) as Properties), status: UNKNOWN }
    },
    async create(named, inputs) {
      reach()
      const id = idOf(inputs)
      if (cloud.get(place(named.type, id)) !== undefined)
        throw failed(`resource ${named.urn} was not successfully created: object ${id} already exists`)
      await delay(2)
      return { id, inputs, outputs: put(named, inputs).outputs }
    },
    read({ type }, id, old) {
      if (mayForget && !isThere()) return undefined
      reach()
      const object = cloud.get(place(type, id))
      if (object === undefined) return undefined
      return {
        id,
        inputs: old === undefined ? object.inputs : drifted(old, object.outputs),
        outputs: object.outputs,
      }
    },
    async update(named, old, news) {
      reach()
      await delay(2)
      return { id: old.id, inputs: news, outputs: put(named, news).outputs }
    },
    async delete({ type }, old) {
      if (mayForget && !isThere()) return
      reach()
      removeBelow(old.inputs)
      cloud.remove(place(type, old.id))
    },
    invoke(token) {
      throw new RpcError(STATUS.invalidArgument, `the stand-in does not answer ${token}`)
    },
  }
}

const clusterOf = (args: Properties) => {
  const kubeconfig = args['kubeconfig'] ?? ''
  return hasUnknown(kubeconfig) ? UNKNOWN : hostOf(text(kubeconfig))
}

/** The inputs with changes that other clients made in the cluster, without values that the server added. */
const drifted = (old: State, outputs: Properties): Properties =>
  [...differences(old.outputs, outputs).keys()]
    .filter((path) => valueAt(old.inputs, path) !== undefined)
    .reduce<Properties>((inputs, path) => withValueAt(inputs, path, valueAt(outputs, path)), old.inputs)
