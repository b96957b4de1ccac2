import { agentSandboxCrds, startAgentSandbox } from './addons/agent-sandbox.ts'
import { baseObjects } from './addons/base-objects.ts'
import { ciliumCrds, startCilium } from './addons/cilium.ts'
import { applyClusterDns, waitForClusterDns } from './addons/cluster-dns.ts'
import { startKubeProxy } from './addons/kube-proxy.ts'
import { startKwok } from './addons/kwok.ts'
import { ensureTools, type Say } from './build/ensure-tools.ts'
import { cacheRoot } from './build/tool-cache.ts'
import { installCrds } from './client/manifests.ts'
import { type ClusterContext, createContext } from './cluster-context.ts'
import { type ClusterOptions, modulesFor } from './cluster-options.ts'
import { startApiServer } from './control-plane/api-server.ts'
import { startControllerManager, startScheduler } from './control-plane/controllers.ts'
import { startEtcd } from './control-plane/etcd.ts'
import { startCrashCleanup } from './crash-cleanup.ts'
import { planAddresses, rangesOverlap } from './host/addresses.ts'
import { type ClusterNetwork, createNetwork, linkExists, linkName, routedRanges } from './host/links.ts'
import { requirePackages } from './host/packages.ts'
import { requirePrivileges } from './host/privileges.ts'
import { kubeconfigPath, logPath, takeSlot } from './host/run-folder.ts'
import { sweepDeadClusters } from './host/sweep.ts'
import { imageArchive } from './images/image-archive.ts'
import { podImages } from './images/pod-images.ts'
import { dnsImage, pauseImage, toolboxImage } from './images/toolbox.ts'
import { prepareNode, type RealNode, startKubelet, waitUntilNodeReady } from './node/node.ts'
import { openVolumes } from './node/open-volumes.ts'
import { stopCluster } from './stop-cluster.ts'

export interface Cluster {
  readonly slot: number
  readonly folder: string
  readonly kubeconfig: string
  /** The folders with the cluster's programs. kubectl is in the first folder. */
  readonly binFolders: readonly string[]
  /** Milliseconds from the call to the end of each step. */
  readonly steps: Readonly<Record<string, number>>
  stop(): Promise<void>
}

/** Starts a cluster. It lives at most as long as this process. */
export async function startCluster(options: ClusterOptions, say: Say): Promise<Cluster> {
  requirePrivileges(options)
  requirePackages(options)
  const tools = await ensureTools(modulesFor(options), say)
  for (const slot of await sweepDeadClusters()) say(`cleaned up after cluster ${slot}, whose owner has died`)
  const slot = takeSlot(await refuseTakenRanges(options))
  const cleanup = startCrashCleanup(slot)
  const context = createContext({ slot, tools, plan: planAddresses(slot), options })
  const volumes = options.nodes > 0 ? openVolumes(context.folder) : undefined
  const stop = async () => {
    volumes?.close()
    await stopCluster(context)
    await cleanup.stop()
  }
  try {
    const steps = await bringUp(context)
    context.noteReady()
    const { folder } = context
    return { slot, folder, kubeconfig: kubeconfigPath(folder), binFolders: tools.binFolders, steps, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/** Skips slots whose address ranges this machine already routes. */
async function refuseTakenRanges({ nodes }: ClusterOptions): Promise<(slot: number) => boolean> {
  if (nodes === 0) return () => false
  const routed = await routedRanges()
  return (slot) => {
    const { linkRange, podRange } = planAddresses(slot)
    return (
      linkExists(linkName(slot)) ||
      routed.some((range) => [linkRange, podRange].some((own) => rangesOverlap(range, own)))
    )
  }
}

async function bringUp(context: ClusterContext): Promise<Record<string, number>> {
  const start = Date.now()
  const steps: Record<string, number> = {}
  const mark = (step: string) => {
    steps[step] = Date.now() - start
  }
  const network = await openNetwork(context)
  const [nodes] = await context.together([
    prepareNodes(context, network).finally(() => mark('nodes prepared')),
    startControlPlane(context, mark),
  ])
  await context.together([
    joinNodes(context, nodes).then(() => mark('nodes ready')),
    startAgentSandbox(context).then(() => mark('controller ready')),
    startKwok(context).then(() => mark('fake nodes ready')),
  ])
  mark('ready')
  return steps
}

async function openNetwork(context: ClusterContext): Promise<ClusterNetwork | undefined> {
  if (context.options.nodes === 0) return undefined
  const network = await createNetwork(context.slot, context.plan, logPath(context.folder, 'switch'))
  context.adopt(network.switchDaemon)
  return network
}

async function startControlPlane(context: ClusterContext, mark: (step: string) => void): Promise<void> {
  await startApiServer(context, await startEtcd(context))
  mark('API server ready')
  const client = context.client()
  await installCrds(client, [
    ...agentSandboxCrds(context),
    ...(context.options.cilium ? ciliumCrds(context) : []),
  ])
  mark('CRDs established')
  await context.together([
    startControllerManager(context),
    startScheduler(context),
    ...baseObjects(context.options).map((object) => client.apply(object)),
  ])
  mark('control plane ready')
}

async function prepareNodes(
  context: ClusterContext,
  network: ClusterNetwork | undefined,
): Promise<RealNode[]> {
  if (!network) return []
  const archives = await testImages(context)
  const indexes = Array.from({ length: context.options.nodes }, (_, index) => index)
  return context.together(indexes.map((index) => prepareNode(context, network, { index, archives })))
}

async function testImages({ tools }: ClusterContext): Promise<string[]> {
  const node = process.execPath
  const specs = [
    pauseImage(tools.bin('node', 'pause')),
    dnsImage(tools.bin('coredns', 'coredns')),
    toolboxImage(node),
    ...(await podImages(cacheRoot(), node)),
  ]
  return Promise.all(specs.map((spec) => imageArchive(cacheRoot(), spec)))
}

async function joinNodes(context: ClusterContext, nodes: readonly RealNode[]): Promise<void> {
  if (nodes.length === 0) return
  const client = context.client()
  await context.together([
    applyClusterDns(client, context.plan),
    ...nodes.map((node) => joinNode(context, node)),
  ])
  await waitForClusterDns(client, context.daemons)
}

async function joinNode(context: ClusterContext, node: RealNode): Promise<void> {
  const kubelet = await startKubelet(context, node)
  if (context.options.cilium) await startCilium(context, node)
  else startKubeProxy(context, node)
  await waitUntilNodeReady(context, node, kubelet)
}
