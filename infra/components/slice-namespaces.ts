import type { Provider } from '@pulumi/kubernetes/provider.js'
import { ComponentResource, type ComponentResourceOptions } from '@pulumi/pulumi'
import { namespaceLabels } from '../../contracts/labels.ts'
import { names as clusterNames, type Slice } from '../../contracts/names.ts'
import type { SliceConfig } from '../config-sections.ts'
import { KubeObject } from './kube-object.ts'

export interface SliceNamespacesArgs {
  readonly kube: Provider
  readonly slice: Slice
  readonly tags: Readonly<Record<string, string>>
  readonly ceiling: SliceConfig['ceiling']
}

/**
 * The three namespaces of a slice, each with a quota that the branch's own tree cannot lift: quotas add up, and the
 * narrowest counts. They go with everything in them when the stack does.
 */
export class SliceNamespaces extends ComponentResource {
  constructor(name: string, args: SliceNamespacesArgs, options: ComponentResourceOptions) {
    super('agentweaver:infra:SliceNamespaces', name, {}, options)
    const { kube, slice, tags, ceiling } = args
    const { prefix, namespaces } = clusterNames(slice)
    const common = { parent: this, provider: kube }
    for (const namespace of [namespaces.controlPlane, namespaces.sandboxes, namespaces.egress]) {
      const object = new KubeObject(
        `Namespace ${namespace}`,
        {
          apiVersion: 'v1',
          kind: 'Namespace',
          metadata: {
            name: namespace,
            labels: namespaceLabels(prefix),
            annotations: {
              'agentweaver.io/expires': tags['expires'] ?? '',
              'agentweaver.io/branch': tags['branch'] ?? '',
            },
          },
        },
        common,
      )
      new KubeObject(
        `ResourceQuota ${namespace}-ceiling`,
        {
          apiVersion: 'v1',
          kind: 'ResourceQuota',
          metadata: { name: 'ceiling', namespace },
          spec: {
            hard: {
              pods: String(ceiling.pods),
              'limits.cpu': `${ceiling.cpuMillis}m`,
              'limits.memory': `${ceiling.memoryMib}Mi`,
              'services.loadbalancers': '2',
              'services.nodeports': '0',
            },
          },
        },
        { ...common, dependsOn: [object] },
      )
    }
    this.registerOutputs({})
  }
}
