import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { inject } from 'vitest'
import { KWOK_LABEL, KWOK_TOLERATION } from '../../../devcluster/addons/kwok.ts'
import type { KubeObject } from '../../../devcluster/client/kube-object.ts'
import { conditionOf } from '../../../devcluster/client/manifests.ts'
import { waitUntil } from '../../../devcluster/host/wait-until.ts'
import { TOOLBOX_IMAGE, TOOLBOX_PORT } from '../../../devcluster/images/toolbox.ts'
import { hasFeature } from './features.ts'
import type { TestNamespace } from './namespace.ts'

const execFileAsync = promisify(execFile)
const READY_MS = 60_000
const EXEC_MS = 30_000

/** On a cluster that we did not start, the toolbox image must come from a registry that the cluster can pull from. */
export const testImage = () => process.env['AGENTWEAVER_TEST_IMAGE'] || TOOLBOX_IMAGE

/**
 * Spec of a pod that runs real containers, with a sandbox's restrictions. The pod is ready once its server responds.
 */
export function realPodSpec(extra: Readonly<Record<string, unknown>> = {}) {
  return {
    automountServiceAccountToken: false,
    terminationGracePeriodSeconds: 1,
    securityContext: { runAsNonRoot: true, runAsUser: 1000, seccompProfile: { type: 'RuntimeDefault' } },
    containers: [
      {
        name: 'main',
        image: testImage(),
        imagePullPolicy: 'IfNotPresent',
        readinessProbe: { httpGet: { path: '/healthz', port: TOOLBOX_PORT }, periodSeconds: 1 },
        resources: { requests: { cpu: '10m', memory: '16Mi' }, limits: { cpu: '500m', memory: '128Mi' } },
        securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
      },
    ],
    ...extra,
  }
}

/** Spec of the pod that starts fastest on this cluster: a fake pod if the cluster has fake nodes. */
export function quickPodSpec(extra: Readonly<Record<string, unknown>> = {}) {
  if (!hasFeature('kwok')) return realPodSpec(extra)
  return {
    nodeSelector: KWOK_LABEL,
    tolerations: [KWOK_TOLERATION],
    terminationGracePeriodSeconds: 0,
    containers: [{ name: 'main', image: testImage() }],
    ...extra,
  }
}

export interface PodParts {
  readonly labels?: Readonly<Record<string, string>>
  readonly spec?: Readonly<Record<string, unknown>>
}

export async function createPod(
  space: TestNamespace,
  name: string,
  { labels = {}, spec }: PodParts = {},
): Promise<KubeObject> {
  return space.client.create({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: space.name, labels },
    spec: spec ?? realPodSpec(),
  })
}

export function waitUntilPodReady(space: TestNamespace, name: string): Promise<KubeObject> {
  return waitUntil({ what: `pod ${name}`, timeoutMs: READY_MS, everyMs: 50 }, async () => {
    const pod = await space.client.get({ apiVersion: 'v1', plural: 'pods', namespace: space.name, name })
    return conditionOf(pod, 'Ready')?.status === 'True' ? pod : undefined
  })
}

export interface ExecResult {
  readonly code: number
  readonly output: string
}

/** Runs a command in a pod through the API server and the kubelet, as a person would. */
export async function execInPod(
  space: TestNamespace,
  pod: string | { readonly name: string; readonly container: string },
  argv: readonly string[],
): Promise<ExecResult> {
  const where = typeof pod === 'string' ? [pod] : [pod.name, '-c', pod.container]
  const config = ['--kubeconfig', inject('cluster').kubeconfig, '-n', space.name]
  const args = [...config, 'exec', ...where, '--', ...argv]
  try {
    const { stdout } = await execFileAsync(kubectl(), args, { timeout: EXEC_MS })
    return { code: 0, output: stdout.trim() }
  } catch (error) {
    const { code, stdout = '', stderr = '' } = error as { code?: unknown; stdout?: string; stderr?: string }
    if (typeof code !== 'number') throw error
    return { code, output: (stdout + stderr).trim() }
  }
}

/** The log of a container so far, as `kubectl logs` prints it. */
export async function logsOf(space: TestNamespace, pod: string, container: string): Promise<string> {
  const config = ['--kubeconfig', inject('cluster').kubeconfig, '-n', space.name]
  const args = [...config, 'logs', pod, '-c', container]
  const { stdout } = await execFileAsync(kubectl(), args, { timeout: EXEC_MS })
  return stdout
}

/** Our own `kubectl` on our cluster, and the `kubectl` in PATH on any other cluster. */
export function kubectl(): string {
  const folders = inject('cluster').binFolders
  return folders.length > 0 ? `${folders[0]}/kubectl` : 'kubectl'
}
