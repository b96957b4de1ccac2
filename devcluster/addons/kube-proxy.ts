import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ClusterContext } from '../cluster-context.ts'
import type { Daemon } from '../host/daemon.ts'
import type { RealNode } from '../node/node.ts'

const HEALTH_PORT = 10256

/** Makes Service addresses work on a node without a network agent that replaces kube-proxy. */
export function startKubeProxy(context: ClusterContext, node: RealNode): Daemon {
  const name = `${node.name}-kube-proxy`
  const address = context.plan.node(node.index)
  const kubeconfig = context.kubeconfigFor(name, { commonName: 'system:kube-proxy' })
  const config = join(node.folder, 'kube-proxy.json')
  writeFileSync(
    config,
    JSON.stringify({
      apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
      kind: 'KubeProxyConfiguration',
      mode: 'nftables',
      clientConnection: { kubeconfig },
      clusterCIDR: context.plan.podRange,
      hostnameOverride: node.name,
      healthzBindAddress: `${address}:${HEALTH_PORT}`,
      metricsBindAddress: '127.0.0.1:10249',
      // The conntrack limits apply to the whole host, so they are left unchanged.
      conntrack: { maxPerCore: 0, min: 0, tcpEstablishedTimeout: '0s', tcpCloseWaitTimeout: '0s' },
    }),
  )
  return node.namespaces.run({
    name,
    health: `http://${address}:${HEALTH_PORT}/healthz`,
    argv: [context.tools.bin('kubernetes', 'kube-proxy'), `--config=${config}`],
    env: node.env,
  })
}
