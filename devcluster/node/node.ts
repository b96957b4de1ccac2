import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { cacheRoot } from '../build/tool-cache.ts'
import { conditionOf } from '../client/manifests.ts'
import type { ClusterContext } from '../cluster-context.ts'
import type { Daemon } from '../host/daemon.ts'
import { type ClusterNetwork, insideNetwork } from '../host/links.ts'
import { waitUntil } from '../host/wait-until.ts'
import { CONTAINERD_SOCKET, containerdConfig } from './containerd-config.ts'
import { fillImageStore } from './image-store.ts'
import { KUBELET_HEALTH_PORT, kubeletConfig } from './kubelet-config.ts'
import { createNamespaces, findRunc, mountFileSystems, type NodeNamespaces } from './node-namespaces.ts'

const CONTAINERD_MS = 20_000
const IMPORT_MS = 120_000
const READY_MS = 60_000

export interface RealNode {
  readonly name: string
  readonly index: number
  readonly folder: string
  readonly cniConfig: string
  readonly namespaces: NodeNamespaces
  readonly env: NodeJS.ProcessEnv
}

export const nodeName = (index: number) => `node${index}`

export interface NodePlan {
  readonly index: number
  /** Archives of the images that the node has from the start. */
  readonly archives: readonly string[]
}

/** Starts the parts of a node that need no API server: namespaces, network, containerd and images. */
export async function prepareNode(
  context: ClusterContext,
  network: ClusterNetwork,
  { index, archives }: NodePlan,
): Promise<RealNode> {
  const namespaces = await createNamespaces(context, index)
  const folder = join(context.folder, nodeName(index))
  const cniConfig = join(folder, 'cni')
  for (const part of ['containerd', 'kubelet', 'pod-logs', 'cni', 'cni-addresses']) {
    mkdirSync(join(folder, part), { recursive: true })
  }
  await mountFileSystems(context, namespaces)
  await network.attach(index, namespaces.pid)
  const path = [...context.tools.binFolders, '/usr/sbin', '/usr/bin', '/sbin', '/bin'].join(':')
  const node = {
    name: nodeName(index),
    index,
    folder,
    cniConfig,
    namespaces,
    env: { PATH: path, HOME: folder },
  }
  if (!context.options.cilium) await setUpRoutedNetwork(context, node)
  await startContainerd(context, node, archives)
  return node
}

/** Each pod gets a routed link, so the host and the other nodes reach it by its own address. */
async function setUpRoutedNetwork({ plan, options }: ClusterContext, node: RealNode): Promise<void> {
  const { folder, cniConfig, index, namespaces } = node
  const others = Array.from({ length: options.nodes }, (_, other) => other).filter((other) => other !== index)
  await insideNetwork(
    namespaces.pid,
    others.map((other) => ['route', 'add', plan.podRangeOf(other), 'via', plan.node(other)]),
  )
  const config = {
    cniVersion: '1.0.0',
    name: 'ptp',
    plugins: [
      {
        type: 'ptp',
        ipMasq: false,
        mtu: 1500,
        ipam: {
          type: 'host-local',
          dataDir: join(folder, 'cni-addresses'),
          ranges: [[{ subnet: plan.podRangeOf(index) }]],
          routes: [{ dst: '0.0.0.0/0' }],
        },
      },
      { type: 'portmap', capabilities: { portMappings: true } },
    ],
  }
  writeFileSync(join(cniConfig, '10-ptp.conflist'), JSON.stringify(config))
}

async function startContainerd(
  { tools }: ClusterContext,
  node: RealNode,
  archives: readonly string[],
): Promise<Daemon> {
  const { folder, namespaces, cniConfig, env } = node
  const config = join(folder, 'containerd.toml')
  const cniBinaries = join(folder, 'cni-programs')
  await namespaces.execute('gathering the network plugins', [
    'sh',
    '-ec',
    gatherScript(cniBinaries, tools.binFolders),
  ])
  const root = join(folder, 'containerd')
  writeFileSync(config, containerdConfig({ root, cniBinaries, cniConfig, runc: findRunc() }))
  const containerd = tools.bin('node', 'containerd')
  const ctr = [tools.bin('node', 'ctr'), '-a', CONTAINERD_SOCKET]
  const unpack = ['sh', '-ec', UNPACK, containerd, config, ctr.join(' '), ...archives]
  await fillImageStore({
    cacheRoot: cacheRoot(),
    archives,
    containerd,
    root,
    unpack: () => namespaces.execute('unpacking the images', unpack, IMPORT_MS),
  })
  const daemon = namespaces.run({
    name: `${node.name}-containerd`,
    argv: [containerd, '-c', config],
    env,
  })
  const wait = { what: `containerd on ${node.name}`, timeoutMs: CONTAINERD_MS, needs: [daemon] }
  await waitUntil(wait, async () => {
    await namespaces.execute('asking containerd', [...ctr, 'version'], 2_000)
    return true
  })
  return daemon
}

/**
 * Runs a containerd that only imports the archives. When the script returns, that containerd has ended and closed its
 * databases.
 */
const UNPACK = `
"$0" -c "$1" & daemon=$!; ctr=$2; shift 2
until $ctr version >/dev/null 2>&1; do kill -0 $daemon; sleep 0.02; done
for archive; do $ctr -n k8s.io images import --local "$archive"; done
kill $daemon; wait $daemon`

/** containerd accepts only one folder of CNI plugins, and our plugins come from several modules. */
function gatherScript(target: string, folders: readonly string[]): string {
  const links = folders.map((folder) => `ln -sf ${folder}/* ${target}/`)
  return [`mkdir -p ${target}`, ...links].join('\n')
}

/** Starts the kubelet with a separate identity, as the Node authorizer and NodeRestriction require. */
export async function startKubelet(context: ClusterContext, node: RealNode): Promise<Daemon> {
  const { plan, pki, tools } = context
  const { name, index, folder, namespaces, env } = node
  const address = plan.node(index)
  await context.client().create(nodeObject(name, plan.podRangeOf(index)))
  const kubeconfig = context.kubeconfigFor(name, {
    commonName: `system:node:${name}`,
    organization: 'system:nodes',
  })
  const subject = { commonName: `system:node:${name}`, organization: 'system:nodes' }
  const certificate = pki.issue(`${name}-server`, { subject, usage: 'server', names: [name, address] })
  const resolvConf = join(folder, 'resolv.conf')
  // The resolver of pods with `dnsPolicy: Default`. There is no resolver outside the cluster.
  writeFileSync(resolvConf, `nameserver ${plan.dnsService}\n`)
  const config = join(folder, 'kubelet.yaml')
  const { dnsService } = plan
  const paths = {
    address,
    authority: pki.authority,
    certificate,
    resolvConf,
    podLogs: join(folder, 'pod-logs'),
    dnsService,
  }
  writeFileSync(config, stringify(kubeletConfig(paths)))
  return namespaces.run({
    name: `${name}-kubelet`,
    health: `http://${address}:${KUBELET_HEALTH_PORT}/healthz`,
    argv: [
      tools.bin('kubernetes', 'kubelet'),
      `--config=${config}`,
      `--kubeconfig=${kubeconfig}`,
      `--hostname-override=${name}`,
      `--node-ip=${address}`,
      `--root-dir=${join(folder, 'kubelet')}`,
      `--cert-dir=${join(folder, 'kubelet', 'pki')}`,
      '--v=2',
    ],
    env,
  })
}

/**
 * The Node object that the kubelet registers on. It sets the pod range early, so the routes to it can be created first.
 */
function nodeObject(name: string, podRange: string) {
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name, labels: { 'kubernetes.io/hostname': name } },
    spec: { podCIDR: podRange, podCIDRs: [podRange] },
  }
}

export async function waitUntilNodeReady(
  context: ClusterContext,
  { name }: RealNode,
  kubelet: Daemon,
): Promise<void> {
  const path = { apiVersion: 'v1', plural: 'nodes', name }
  await waitUntil({ what: `node ${name}`, timeoutMs: READY_MS, needs: [kubelet], everyMs: 50 }, async () => {
    const ready = conditionOf(await context.client().get(path), 'Ready')
    return ready?.status === 'True' ? true : undefined
  })
}
