import { join } from 'node:path'
import type { ClusterContext } from '../cluster-context.ts'
import type { Daemon } from '../host/daemon.ts'
import { withFreePorts } from '../host/free-ports.ts'
import { isHealthy } from '../host/health.ts'
import { temporaryFolderMounts } from '../host/temporary-folder.ts'
import { waitUntil } from '../host/wait-until.ts'

const READY_MS = 30_000
/** The defaults (20 and 50 requests a second) would slow down a pool of twenty pods. */
const CLIENT_RATE = ['--kube-api-qps=300', '--kube-api-burst=600']

/**
 * Starts the controller-manager. CRDs must exist first: its garbage collector reads the list of kinds every 30 seconds,
 * and deletes no dependents of a newer kind until then.
 */
export function startControllerManager(context: ClusterContext): Promise<Daemon> {
  const { folder, pki, plan, tools, options } = context
  const kubeconfig = context.kubeconfigFor('controller-manager', {
    commonName: 'system:kube-controller-manager',
  })
  const program = [
    tools.bin('kubernetes', 'kube-controller-manager'),
    ...accessFlags(kubeconfig),
    `--cert-dir=${join(folder, 'pki', 'controller-manager')}`,
    '--use-service-account-credentials',
    `--root-ca-file=${pki.path('ca.crt')}`,
    `--service-account-private-key-file=${pki.path('tokens.key')}`,
    `--cluster-signing-cert-file=${pki.path('ca.crt')}`,
    `--cluster-signing-key-file=${pki.path('ca.key')}`,
    `--service-cluster-ip-range=${plan.serviceRange}`,
    ...(options.nodes > 0 ? ['--enable-hostpath-provisioner'] : []),
  ]
  return startController(context, {
    name: 'kube-controller-manager',
    argv: options.nodes > 0 ? withOwnTemporaryFolder(folder, program) : program,
  })
}

/** Runs a program with the cluster's own folder as its `/tmp`. */
function withOwnTemporaryFolder(folder: string, program: readonly string[]): string[] {
  const script = [...temporaryFolderMounts(folder), 'exec "$@"'].join('\n')
  return ['unshare', '--mount', '--propagation', 'private', 'sh', '-ec', script, 'sh', ...program]
}

export function startScheduler(context: ClusterContext): Promise<Daemon> {
  const kubeconfig = context.kubeconfigFor('scheduler', { commonName: 'system:kube-scheduler' })
  const argv = [
    context.tools.bin('kubernetes', 'kube-scheduler'),
    ...accessFlags(kubeconfig),
    `--cert-dir=${join(context.folder, 'pki', 'scheduler')}`,
  ]
  return startController(context, { name: 'kube-scheduler', argv })
}

function accessFlags(kubeconfig: string): string[] {
  return [
    `--kubeconfig=${kubeconfig}`,
    `--authentication-kubeconfig=${kubeconfig}`,
    `--authorization-kubeconfig=${kubeconfig}`,
    '--bind-address=127.0.0.1',
    '--leader-elect=false',
    '--profiling=false',
    ...CLIENT_RATE,
  ]
}

interface Controller {
  readonly name: string
  readonly argv: readonly string[]
}

function startController({ run }: ClusterContext, { name, argv }: Controller): Promise<Daemon> {
  return withFreePorts(1, async ([port]) => {
    const health = `https://127.0.0.1:${port}/healthz`
    const daemon = run({ name, health, argv: [...argv, `--secure-port=${port}`] })
    await waitUntil({ what: `the ${name}`, timeoutMs: READY_MS, needs: [daemon] }, async () =>
      (await isHealthy(health)) ? true : undefined,
    )
    return daemon
  })
}
