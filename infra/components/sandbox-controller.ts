import { Extension } from '@pulumi/azure-native/kubernetesconfiguration/extension.js'
import type { Provider } from '@pulumi/kubernetes/provider.js'
import { ComponentResource, type ComponentResourceOptions, type Input, type Resource } from '@pulumi/pulumi'
import { CONTROLLER_NAMESPACE } from '../../contracts/names.ts'
import type { PlatformConfig } from '../config-sections.ts'
import { controllerScrape, controllerSurroundings, hardened } from '../model/controller-hardening.ts'
import type { KubeManifest } from '../model/controller-release.ts'
import { API_SERVER_PORT, MONITORING_NAMESPACE } from '../model/outputs.ts'
import { KubeObject } from './kube-object.ts'
import { goesWith, type Site } from './site.ts'

/** The cluster that the controller runs in. */
export interface ControllerCluster {
  readonly name: Input<string>
  /** The cluster, if this stack creates it. Deleting the cluster deletes the objects in it. */
  readonly made: readonly Resource[]
}

export interface SandboxControllerArgs {
  readonly site: Site
  readonly cluster: ControllerCluster
  readonly kube: Provider
  readonly controller: PlatformConfig['controller']
  /** Objects of the pinned release. */
  readonly release: readonly KubeManifest[]
  readonly pools: readonly Resource[]
}

/** What turns claims into sandboxes: the pinned upstream release as we run it, or Azure's extension. */
export class SandboxController extends ComponentResource {
  constructor(name: string, args: SandboxControllerArgs, options: ComponentResourceOptions) {
    super('agentweaver:infra:SandboxController', name, {}, options)
    const { controller } = args
    const installed =
      controller.install === 'upstream'
        ? this.#upstream(args, controller)
        : this.#extension(name, args, controller)
    const { site, kube, cluster } = args
    const scrape = controllerScrape()
    new KubeObject(`${scrape.kind} ${scrape.metadata.name}`, scrape, {
      parent: this,
      provider: kube,
      ...goesWith(cluster.made[0], site),
      dependsOn: installed,
    })
    this.registerOutputs({})
  }

  /** Namespace, then types and rights, then the controller, which the provider waits for. */
  #upstream({ site, kube, cluster, release, pools }: SandboxControllerArgs, settings: Upstream): Resource[] {
    const common = { parent: this, provider: kube, ...goesWith(cluster.made[0], site) } as const
    const make = (object: KubeManifest, dependsOn: readonly Resource[]) =>
      new KubeObject(`${object.kind} ${object.metadata.name}`, object, {
        ...common,
        dependsOn: [...dependsOn],
        // A deletion of the type would delete every sandbox of the cluster. It is protected too: if it was dropped from
        // the state but still exists, the next `up` fails, because it would create it.
        ...(object.kind === 'CustomResourceDefinition' && { retainOnDelete: true, protect: site.protect }),
      })
    const objects = release.map((object) => hardened(object, settings))
    const isFirst = ({ kind }: KubeManifest) => kind === 'Namespace'
    const isLast = ({ kind }: KubeManifest) => kind === 'Deployment'
    const namespaces = objects.filter(isFirst).map((object) => make(object, pools))
    const around = controllerSurroundings(API_SERVER_PORT, MONITORING_NAMESPACE)
    const before = [...around, ...objects.filter((object) => !isFirst(object) && !isLast(object))].map(
      (object) => make(object, namespaces),
    )
    return objects.filter(isLast).map((object) => make(object, before))
  }

  #extension(
    name: string,
    { site, cluster, pools }: SandboxControllerArgs,
    settings: AksExtension,
  ): Resource[] {
    const extension = new Extension(
      name,
      {
        resourceGroupName: site.resourceGroupName,
        clusterRp: 'Microsoft.ContainerService',
        clusterResourceName: 'managedClusters',
        clusterName: cluster.name,
        extensionName: name,
        extensionType: settings.extensionType,
        autoUpgradeMinorVersion: false,
        version: settings.version,
        scope: { cluster: { releaseNamespace: CONTROLLER_NAMESPACE } },
      },
      { parent: this, dependsOn: [...pools], ...goesWith(cluster.made[0], site) },
    )
    return [extension]
  }
}

type Upstream = Extract<PlatformConfig['controller'], { install: 'upstream' }>
type AksExtension = Extract<PlatformConfig['controller'], { install: 'aksExtension' }>
