import { randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { spawnService } from '../../cli/service/spawn-service.ts'
import { EXECUTOR_KEYS, names } from '../../contracts/names.ts'
import type { KubeClient } from '../../devcluster/client/kube-client.ts'
import type { KubeObject } from '../../devcluster/client/kube-object.ts'
import { aPool, CORE_API, EXTENSIONS_API, templateWith } from '../../devcluster/client/sandbox-objects.ts'
import { KEYS_MAP, sandboxPodSpec } from '../../devcluster/client/sandbox-pod-spec.ts'
import { waitUntil } from '../../devcluster/host/wait-until.ts'
import { createClient } from '../../runtime/client/client.ts'

const POOL_MS = 180_000

/** A Sandbox that is ready and that no claim has taken. */
const isReadyMember = ({ metadata, status }: KubeObject): boolean =>
  Boolean(metadata.ownerReferences?.some(({ kind }) => kind === 'SandboxWarmPool')) &&
  Boolean(
    status?.conditions?.some(
      (one: { type: string; status: string }) => one.type === 'Ready' && one.status === 'True',
    ),
  )

export type ClusterService = Awaited<ReturnType<typeof startClusterService>>

/** The real service in a separate process, with a namespace and a pool of real sandbox pods on a cluster. */
export async function startClusterService(kube: KubeClient, kubeconfig: string, replicas: number) {
  const slug = `bench-${randomBytes(3).toString('hex')}`
  const { namespaces, pool, serviceAccounts } = names({ kind: 'preview', slug })
  const namespace = namespaces.sandboxes
  const account = serviceAccounts.agentHost
  const folder = mkdtempSync(join(tmpdir(), 'bench-cluster-'))
  await kube.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } })
  await kube.create({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: account, namespace } })
  const stateDir = join(folder, 'state')
  const service = await spawnService({
    env: { PATH: process.env['PATH'] ?? '', HOME: folder, TMPDIR: folder },
    settings: {
      AGENTWEAVER_STATE_DIR: stateDir,
      AGENTWEAVER_SANDBOXES: 'kubernetes',
      AGENTWEAVER_DEPLOYMENT_ID: slug,
      AGENTWEAVER_PREVIEW_SLUG: slug,
      AGENTWEAVER_RUNTIME_CLASS: 'none',
      AGENTWEAVER_KUBECONFIG: kubeconfig,
    },
    cwd: folder,
  })
  await kube.create({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: KEYS_MAP, namespace },
    data: { [EXECUTOR_KEYS.file]: readFileSync(join(stateDir, 'keys', EXECUTOR_KEYS.file), 'utf8') },
  })
  const podSpec = { ...sandboxPodSpec(), serviceAccountName: account, terminationGracePeriodSeconds: 1 }
  await kube.create(templateWith({ name: namespace }, pool('agent'), { podSpec }))
  await kube.create(aPool({ name: namespace }, pool('agent'), { template: pool('agent'), replicas }))
  const path = { apiVersion: EXTENSIONS_API, plural: 'sandboxwarmpools', namespace, name: pool('agent') }
  return {
    namespace,
    pool: pool('agent'),
    client: createClient(service),
    /** The members themselves are counted: where the controller could not make one, the pool's status stays behind. */
    async untilWarm(): Promise<void> {
      const members = { apiVersion: CORE_API, plural: 'sandboxes', namespace }
      await waitUntil({ what: 'the pool', timeoutMs: POOL_MS, everyMs: 250 }, async () => {
        const { items } = await kube.list(members)
        if (items.filter(isReadyMember).length === replicas) return true
        // After a refusal the controller pauses, up to minutes; a change of the pool ends that.
        await kube.mergePatch(path, { metadata: { annotations: { 'bench/looked-at': String(Date.now()) } } })
        return undefined
      })
    },
    async stop() {
      await service.stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
