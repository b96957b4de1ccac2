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
 * The three namespaces of a slice, each with a quota. The branch's tree cannot raise it, because the strictest quota
 * of a namespace applies. The namespaces and their content are deleted with the stack.
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
