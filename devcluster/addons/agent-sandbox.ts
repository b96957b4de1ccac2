import { join } from 'node:path'
import type { KubeObject } from '../client/kube-object.ts'
import { writeKubeconfig } from '../client/kubeconfig.ts'
import { readManifest, readManifests } from '../client/manifests.ts'
import type { ClusterContext } from '../cluster-context.ts'
import type { Daemon } from '../host/daemon.ts'
import { withFreePorts } from '../host/free-ports.ts'
import { isHealthy } from '../host/health.ts'
import { waitUntil } from '../host/wait-until.ts'

const NAMESPACE = 'agent-sandbox-system'
const SERVICE_ACCOUNT = 'agent-sandbox-controller'
const READY_MS = 30_000
const TOKEN_SECONDS = 24 * 3600

export function agentSandboxCrds({ tools }: ClusterContext): KubeObject[] {
  return readManifests(tools.share('kubernetes', 'agent-sandbox/crds'))
}

/**
 * Runs the real controller, with its extensions, outside the cluster but under its own service account, so that it has
 * exactly the rights that its release grants.
 */
export async function startAgentSandbox(context: ClusterContext): Promise<Daemon> {
  await applyRights(context)
  const kubeconfig = await writeTokenKubeconfig(context)
  return withFreePorts(2, async ([metricsPort, healthPort]) => {
    const health = `http://127.0.0.1:${healthPort}/readyz`
    const daemon = context.run({
      name: 'agent-sandbox-controller',
      health,
      argv: [
        context.tools.bin('kubernetes', 'agent-sandbox-controller'),
        `--kubeconfig=${kubeconfig}`,
        '--extensions',
        '--leader-elect=false',
        `--metrics-bind-address=127.0.0.1:${metricsPort}`,
        `--health-probe-bind-address=127.0.0.1:${healthPort}`,
      ],
    })
    await waitUntil(
      { what: 'the agent-sandbox controller', timeoutMs: READY_MS, needs: [daemon] },
      async () => ((await isHealthy(health)) ? true : undefined),
    )
    return daemon
  })
}

const MANIFESTS = [
  'controller.yaml',
  'rbac.generated.yaml',
  'extensions-rbac.generated.yaml',
  'extensions.yaml',
]
const RUN_BY_US = new Set(['Deployment', 'Service'])

async function applyRights(context: ClusterContext): Promise<void> {
  const client = context.client()
  const objects = MANIFESTS.flatMap((file) =>
    readManifest(context.tools.share('kubernetes', `agent-sandbox/${file}`)),
  )
  const wanted = objects.filter(({ kind }) => !RUN_BY_US.has(kind))
  for (const object of wanted.filter(({ kind }) => kind === 'Namespace')) await client.apply(object)
  await Promise.all(wanted.filter(({ kind }) => kind !== 'Namespace').map((object) => client.apply(object)))
}

async function writeTokenKubeconfig(context: ClusterContext): Promise<string> {
  const answer = await context.client().post(
    {
      apiVersion: 'v1',
      plural: 'serviceaccounts',
      namespace: NAMESPACE,
      name: SERVICE_ACCOUNT,
      subresource: 'token',
    },
    {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec: { expirationSeconds: TOKEN_SECONDS },
    },
  )
  const path = join(context.folder, 'kubeconfigs', 'agent-sandbox')
  const user = { token: String(answer['status'].token) }
  writeKubeconfig(path, { server: context.server, authorityFile: context.pki.authority, user })
  return path
}
