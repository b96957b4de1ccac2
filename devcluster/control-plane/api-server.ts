import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ClusterContext } from '../cluster-context.ts'
import { withFreePorts } from '../host/free-ports.ts'
import { isHealthy } from '../host/health.ts'
import { waitUntil } from '../host/wait-until.ts'

const READY_MS = 60_000
/** No other process listens on the address of the nodes' link, so the usual port is free. */
const LINK_PORT = 6443

const AUDIT_POLICY = {
  apiVersion: 'audit.k8s.io/v1',
  kind: 'Policy',
  omitStages: ['RequestReceived'],
  rules: [{ level: 'Metadata' }],
}

/**
 * Starts the API server. With nodes, it listens only on the host's end of the node network, otherwise on a loopback
 * port.
 */
export async function startApiServer(context: ClusterContext, etcd: string): Promise<void> {
  if (context.options.nodes > 0) return launch(context, { host: context.plan.host, port: LINK_PORT, etcd })
  await withFreePorts(1, ([port = 0]) => launch(context, { host: '127.0.0.1', port, etcd }))
}

interface Place {
  readonly host: string
  readonly port: number
  readonly etcd: string
}

async function launch(context: ClusterContext, place: Place): Promise<void> {
  context.server = `https://${place.host}:${place.port}`
  context.kubeconfigFor('admin', { commonName: 'kubernetes-admin', organization: 'system:masters' })
  const health = `${context.server}/readyz`
  const daemon = context.run({
    name: 'kube-apiserver',
    health,
    argv: [context.tools.bin('kubernetes', 'kube-apiserver'), ...flags(context, place)],
  })
  await waitUntil({ what: 'the API server', timeoutMs: READY_MS, needs: [daemon] }, async () =>
    (await isHealthy(health)) ? true : undefined,
  )
}

function flags({ folder, pki, plan, options }: ClusterContext, { host, port, etcd }: Place): string[] {
  const auditPolicy = join(folder, 'audit-policy.json')
  writeFileSync(auditPolicy, JSON.stringify(AUDIT_POLICY))
  return [
    `--etcd-servers=${etcd}`,
    `--bind-address=${host}`,
    `--advertise-address=${host}`,
    `--secure-port=${port}`,
    // A loopback address is not a valid endpoint of the `kubernetes` Service, and without nodes no client would use it.
    ...(options.nodes > 0 ? [] : ['--endpoint-reconciler-type=none']),
    `--service-cluster-ip-range=${plan.serviceRange}`,
    '--authorization-mode=Node,RBAC',
    '--enable-admission-plugins=NodeRestriction',
    '--allow-privileged',
    ...certificateFlags(pki.path),
    '--kubelet-preferred-address-types=InternalIP',
    '--service-account-issuer=https://kubernetes.default.svc.cluster.local',
    `--cert-dir=${join(folder, 'pki')}`,
    '--profiling=false',
    `--audit-policy-file=${auditPolicy}`,
    `--audit-log-path=${auditLogPath(folder)}`,
  ]
}

export const auditLogPath = (folder: string) => join(folder, 'logs', 'audit.log')

function certificateFlags(path: (file: string) => string): string[] {
  return [
    `--client-ca-file=${path('ca.crt')}`,
    `--tls-cert-file=${path('apiserver.crt')}`,
    `--tls-private-key-file=${path('apiserver.key')}`,
    `--kubelet-certificate-authority=${path('ca.crt')}`,
    `--kubelet-client-certificate=${path('apiserver-kubelet-client.crt')}`,
    `--kubelet-client-key=${path('apiserver-kubelet-client.key')}`,
    `--service-account-key-file=${path('tokens.pub')}`,
    `--service-account-signing-key-file=${path('tokens.key')}`,
    `--requestheader-client-ca-file=${path('front-proxy-ca.crt')}`,
    '--requestheader-allowed-names=front-proxy-client',
    '--requestheader-username-headers=X-Remote-User',
    '--requestheader-group-headers=X-Remote-Group',
    '--requestheader-extra-headers-prefix=X-Remote-Extra-',
    `--proxy-client-cert-file=${path('front-proxy-client.crt')}`,
    `--proxy-client-key-file=${path('front-proxy-client.key')}`,
  ]
}
