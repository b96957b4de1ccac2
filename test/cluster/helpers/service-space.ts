import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, inject } from 'vitest'
import { API_KEY_FILE } from '../../../contracts/api-env.ts'
import { EXECUTOR_KEYS, names, type SandboxKind } from '../../../contracts/names.ts'
import { createKubeClient, type KubeClient } from '../../../devcluster/client/kube-client.ts'
import { readKubeconfig } from '../../../devcluster/client/kubeconfig.ts'
import { aPool, EXTENSIONS_API } from '../../../devcluster/client/sandbox-objects.ts'
import { KEYS_MAP, sandboxPodSpec } from '../../../devcluster/client/sandbox-pod-spec.ts'
import { waitUntil } from '../../../devcluster/host/wait-until.ts'
import { createClient } from '../../../runtime/client/client.ts'
import { type ServiceProcess, spawnService } from '../../api/service-process.ts'
import { aTemplate } from './sandbox-objects.ts'

const POOL_MS = 120_000
const GONE_MS = 60_000

export type ServiceOptions = {
  readonly runtimeClass: string | undefined
  readonly replicas: Readonly<Record<SandboxKind, number>>
  /** Kubeconfig of the cluster. @default the cluster of the suites */
  readonly kubeconfig?: () => string
  /** The deployment's upper limits, in the format of the ceiling file. */
  readonly ceiling?: Readonly<Record<string, unknown>>
  /** Further settings of the service. */
  readonly settings?: () => Promise<Readonly<Record<string, string>>>
  /** Derives the spec of the agent pool's pods from the default spec, once the service has its keys. */
  readonly agentPod?: (place: ServicePlace) => Promise<(spec: PodSpec) => object>
}

type PodSpec = ReturnType<typeof sandboxPodSpec>
export type ServicePlace = {
  readonly kube: KubeClient
  readonly namespace: string
  readonly account: string
  readonly stateDir: string
}

/**
 * Runs the real service in a separate process, with its own slice on a real cluster: namespace, accounts, keys,
 * templates and pools of sandbox pods. Tests use it over HTTP, like any client.
 */
export function useServiceSpace(options: ServiceOptions) {
  const { runtimeClass, replicas, ceiling = {}, settings, agentPod } = options
  const slug = `test-${randomBytes(3).toString('hex')}`
  const { namespaces, pool, serviceAccounts } = names({ kind: 'preview', slug })
  const namespace = namespaces.sandboxes
  const accounts = { agent: serviceAccounts.agentHost, command: serviceAccounts.commandHost }
  const kubeconfig = options.kubeconfig ?? (() => inject('cluster').kubeconfig)
  let kube: KubeClient
  let folder = ''
  let service: ServiceProcess
  let client: ReturnType<typeof createClient>
  let reached = { url: '', apiKey: '' }

  async function makePool(kind: SandboxKind, change: (spec: PodSpec) => object): Promise<void> {
    const podSpec = {
      ...change(sandboxPodSpec({ runtimeClassName: runtimeClass })),
      serviceAccountName: accounts[kind],
      terminationGracePeriodSeconds: 2,
    }
    await kube.create(aTemplate({ name: namespace }, pool(kind), { podSpec }))
    await kube.create(
      aPool({ name: namespace }, pool(kind), { template: pool(kind), replicas: replicas[kind] }),
    )
  }

  beforeAll(async () => {
    kube = createKubeClient(readKubeconfig(kubeconfig()))
    await kube.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } })
    for (const name of Object.values(accounts))
      await kube.create({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name, namespace } })
    folder = await mkdtemp(join(tmpdir(), 'aw-cluster-service-'))
    const ceilingFile = join(folder, 'ceiling.yml')
    await writeFile(ceilingFile, JSON.stringify(ceiling))
    const more = await settings?.()
    service = spawnService({
      AGENTWEAVER_CEILING_FILE: ceilingFile,
      AGENTWEAVER_STATE_DIR: join(folder, 'state'),
      AGENTWEAVER_SANDBOXES: 'kubernetes',
      AGENTWEAVER_DEPLOYMENT_ID: slug,
      AGENTWEAVER_PREVIEW_SLUG: slug,
      AGENTWEAVER_RUNTIME_CLASS: runtimeClass ?? 'none',
      AGENTWEAVER_KUBECONFIG: kubeconfig(),
      ...more,
    })
    const { url, apiKeyFile } = await service.ready
    // Without given keys, the service creates an API key.
    const keyFile = apiKeyFile ?? join(more?.['AGENTWEAVER_KEYS_DIR'] ?? '', API_KEY_FILE)
    reached = { url, apiKey: (await readFile(keyFile, 'utf8')).trim() }
    client = createClient(reached)
    const jwks = readFileSync(join(folder, 'state', 'keys', EXECUTOR_KEYS.file), 'utf8')
    await kube.create({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: KEYS_MAP, namespace },
      data: { [EXECUTOR_KEYS.file]: jwks },
    })
    const stateDir = join(folder, 'state')
    const change = await agentPod?.({ kube, namespace, account: accounts.agent, stateDir })
    await makePool('agent', change ?? ((spec) => spec))
    await makePool('command', (spec) => spec)
    await waitForPool('agent')
    await waitForPool('command')
  })
  afterAll(async () => {
    service?.child.kill('SIGTERM')
    await service?.exited
    await kube?.delete({ apiVersion: 'v1', plural: 'namespaces', name: namespace })
    await kube?.close()
    await rm(folder, { recursive: true, force: true })
  })

  async function waitForPool(kind: SandboxKind): Promise<void> {
    const path = { apiVersion: EXTENSIONS_API, plural: 'sandboxwarmpools', namespace, name: pool(kind) }
    await waitUntil({ what: `the pool ${path.name}`, timeoutMs: POOL_MS, everyMs: 100 }, async () =>
      ((await kube.get(path))['status']?.readyReplicas ?? 0) === replicas[kind] ? true : undefined,
    )
  }

  return {
    namespace,
    kube: () => kube,
    client: () => client,
    /** URL of the service, and the API key that it accepts. */
    url: () => reached.url,
    apiKey: () => reached.apiKey,
    log: () => service.stderr(),
    stateDir: () => join(folder, 'state'),
    waitForPool,
    pods: async () => (await kube.list({ apiVersion: 'v1', plural: 'pods', namespace })).items,
    claims: async () =>
      (await kube.list({ apiVersion: EXTENSIONS_API, plural: 'sandboxclaims', namespace })).items,
    /** Waits until no claim is left, and only the pods of the full pools. */
    async nothingLeft(): Promise<void> {
      const { agent, command } = replicas
      await waitUntil({ what: 'nothing to be left', timeoutMs: GONE_MS, everyMs: 100 }, async () => {
        const claims = await kube.list({ apiVersion: EXTENSIONS_API, plural: 'sandboxclaims', namespace })
        const pods = await kube.list({ apiVersion: 'v1', plural: 'pods', namespace })
        return claims.items.length === 0 && pods.items.length === agent + command ? true : undefined
      })
    },
  }
}
