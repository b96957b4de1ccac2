import { cpSync, existsSync, mkdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import type { KubeObject } from '../client/kube-object.ts'
import { readManifests } from '../client/manifests.ts'
import type { ClusterContext } from '../cluster-context.ts'
import type { IdentityTiming } from '../cluster-options.ts'
import { clangPath } from '../host/packages.ts'
import { waitUntil } from '../host/wait-until.ts'
import type { RealNode } from '../node/node.ts'

const READY_MS = 90_000

export function ciliumCrds({ tools }: ClusterContext): KubeObject[] {
  return readManifests(tools.share('cilium', 'cilium/crds'))
}

/**
 * Cilium waits a random time of up to 30 seconds, plus a grace period of 5 seconds, before it acts on a changed pod
 * label. Claims change labels, so the default timing matches a real cluster. Tests of policy rules turn the delay off.
 */
const TIMING_FLAGS: Readonly<Record<IdentityTiming, readonly string[]>> = {
  default: [],
  instant: ['--identity-max-jitter=0s', '--identity-change-grace-period=0s'],
}

/**
 * The agent's default rate limits (ten API requests a second, one endpoint every two seconds, one endpoint list a
 * second) spread the load of a fleet. They would delay fifty pods that start together on one node.
 */
const PACING_FLAGS = [
  '--k8s-client-qps=100',
  '--k8s-client-burst=200',
  `--api-rate-limit=${['endpoint-create', 'endpoint-list'].map((call) => `${call}=auto-adjust:false,rate-limit:100/s,rate-burst:100,parallel-requests:8`).join()}`,
]

/** Starts the real agent on a node and waits until it is ready: it then writes the network configuration. */
export async function startCilium(context: ClusterContext, node: RealNode): Promise<void> {
  const { folder, cniConfig, namespaces, name } = node
  const config = join(cniConfig, '05-cilium.conflist')
  const daemon = namespaces.run({
    name: `${name}-cilium`,
    argv: [context.tools.bin('cilium', 'cilium-agent'), ...flags(context, node, config)],
    env: {
      ...node.env,
      PATH: `${compilerFolder(folder)}:${node.env['PATH']}`,
      K8S_NODE_NAME: name,
      // containerd does not notice a file that is renamed into place on the same mount. This happens if the
      // agent's temporary folder is on the same mount as the network configuration.
      TMPDIR: '/run/cilium',
    },
  })
  await waitUntil({ what: `Cilium on ${name}`, timeoutMs: READY_MS, needs: [daemon] }, () =>
    existsSync(config) ? true : undefined,
  )
}

/** The agent compiles its BPF programs with a command that must be called `clang`. */
function compilerFolder(folder: string): string {
  const bin = join(folder, 'compiler')
  mkdirSync(bin, { recursive: true })
  const link = join(bin, 'clang')
  if (!existsSync(link)) symlinkSync(clangPath(), link)
  return bin
}

function flags(context: ClusterContext, node: RealNode, config: string): string[] {
  const { plan, options, tools } = context
  const library = join(node.folder, 'cilium')
  // The agent writes into its library folder, so each agent needs a copy of the shared folder.
  cpSync(tools.share('cilium', 'cilium/bpf'), join(library, 'bpf'), { recursive: true })
  const kubeconfig = context.kubeconfigFor('cilium', { commonName: 'cilium', organization: 'system:masters' })
  return [
    `--k8s-kubeconfig-path=${kubeconfig}`,
    '--cluster-name=default',
    '--cluster-id=0',
    '--ipam=kubernetes',
    '--enable-ipv4=true',
    '--enable-ipv6=false',
    '--routing-mode=native',
    `--ipv4-native-routing-cidr=${plan.podRange}`,
    '--enable-ipv4-masquerade=false',
    `--auto-direct-node-routes=${options.nodes > 1}`,
    '--kube-proxy-replacement=false',
    '--bpf-lb-sock=false',
    '--identity-allocation-mode=crd',
    '--enable-policy=default',
    '--enable-l7-proxy=true',
    '--enable-envoy-config=false',
    '--disable-envoy-version-check=true',
    '--enable-hubble=false',
    '--enable-health-checking=false',
    '--enable-endpoint-health-checking=false',
    '--enable-bandwidth-manager=false',
    '--enable-gops=false',
    `--lib-dir=${library}`,
    '--state-dir=/run/cilium',
    '--bpf-root=/sys/fs/bpf',
    '--cgroup-root=/run/cilium/cgroupv2',
    `--write-cni-conf-when-ready=${config}`,
    '--cni-exclusive=false',
    `--cni-log-file=${join(node.folder, 'cilium-cni.log')}`,
    '--devices=node0',
    ...PACING_FLAGS,
    ...TIMING_FLAGS[options.cilium || 'default'],
  ]
}
