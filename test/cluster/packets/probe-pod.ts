import { inject } from 'vitest'
import { RUNTIME_CLASSES } from '../../../contracts/labels.ts'
import type { KubeClient } from '../../../devcluster/client/kube-client.ts'
import type { KubeObject } from '../../../devcluster/client/kube-object.ts'
import { conditionOf } from '../../../devcluster/client/manifests.ts'
import { waitUntil } from '../../../devcluster/host/wait-until.ts'
import { TOOLBOX_IMAGE } from '../../../devcluster/images/toolbox.ts'
import { type Listening, listenArguments, probeArguments } from './probe-command.ts'
import { type Prober, startProber } from './prober.ts'

/** Port of every probe pod's health endpoint, for the kubelet. No pod policy blocks the pod's own node. */
const HEALTH_PORT = 7999
const READY_MS = 90_000

export type Runtime = 'runc' | 'gvisor'

export interface ProbePodPlan {
  readonly namespace: string
  readonly name: string
  readonly labels?: Readonly<Record<string, string>>
  /** @default 'runc' */
  readonly runtime?: Runtime
  readonly listening?: Listening
  /** Container ports with a name, for rules that name a port. */
  readonly namedPorts?: readonly { readonly name: string; readonly containerPort: number }[]
  /** DNS server of the pod. @default the cluster's resolver */
  readonly resolver?: string
}

export interface ProbePod {
  readonly ip: string
  readonly prober: Prober
}

export function probePodSpec(plan: Omit<ProbePodPlan, 'namespace' | 'name'>): Record<string, unknown> {
  const { runtime = 'runc', listening = {}, namedPorts = [], resolver } = plan
  const { tcp = [] } = listening
  return {
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    terminationGracePeriodSeconds: 1,
    securityContext: { runAsNonRoot: true, runAsUser: 1000, seccompProfile: { type: 'RuntimeDefault' } },
    ...(runtime === 'gvisor' ? { runtimeClassName: RUNTIME_CLASSES.gvisor.name } : {}),
    ...(resolver ? { dnsPolicy: 'None', dnsConfig: { nameservers: [resolver] } } : {}),
    containers: [
      {
        name: 'probe',
        image: TOOLBOX_IMAGE,
        imagePullPolicy: 'IfNotPresent',
        command: ['node', ...listenArguments({ ...listening, tcp: [HEALTH_PORT, ...tcp] })],
        ...(namedPorts.length > 0 ? { ports: namedPorts } : {}),
        readinessProbe: { tcpSocket: { port: HEALTH_PORT }, periodSeconds: 1, timeoutSeconds: 5 },
        resources: { requests: { cpu: '5m', memory: '32Mi' }, limits: { cpu: '1', memory: '256Mi' } },
        securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
      },
    ],
  }
}

export function probePodObject(plan: ProbePodPlan): KubeObject {
  const { namespace, name, labels = {} } = plan
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { namespace, name, labels },
    spec: probePodSpec(plan),
  }
}

/** Its address, once it is ready. */
export function waitForPodAddress(client: KubeClient, namespace: string, name: string): Promise<string> {
  const path = { apiVersion: 'v1', plural: 'pods', namespace, name }
  return waitUntil({ what: `pod ${namespace}/${name}`, timeoutMs: READY_MS, everyMs: 50 }, async () => {
    const pod = await client.get(path)
    return conditionOf(pod, 'Ready')?.status === 'True' ? (pod['status'].podIP as string) : undefined
  })
}

const LIST_MS = 150

/**
 * Returns the address of a pod once the pod is ready. Pods that start together share one list request, because a
 * request for each pod would overload the machine.
 */
export function followPodAddresses(client: KubeClient): (namespace: string, name: string) => Promise<string> {
  let list: Promise<Map<string, string>> = Promise.resolve(new Map())
  let listedAt = 0
  const listed = () => {
    if (Date.now() - listedAt >= LIST_MS) {
      listedAt = Date.now()
      list = readyAddresses(client)
    }
    return list
  }
  return (namespace, name) => {
    const key = `${namespace}/${name}`
    return waitUntil({ what: `pod ${key}`, timeoutMs: READY_MS, everyMs: LIST_MS }, async () =>
      (await listed()).get(key),
    )
  }
}

async function readyAddresses(client: KubeClient): Promise<Map<string, string>> {
  const { items } = await client.list({ apiVersion: 'v1', plural: 'pods' })
  const ready = items.filter((pod) => conditionOf(pod, 'Ready')?.status === 'True')
  return new Map(
    ready.map(({ metadata: { namespace, name }, status }) => [
      `${namespace}/${name}`,
      status.podIP as string,
    ]),
  )
}

/** Starts a prober inside a pod. Its input and output go through the kubelet, so no policy blocks them. */
export function startPodProber(namespace: string, name: string): Promise<Prober> {
  const { kubeconfig, binFolders } = inject('cluster')
  const target = ['--kubeconfig', kubeconfig, '-n', namespace, 'exec', '-i', name, '--']
  return startProber([`${binFolders[0]}/kubectl`, ...target, 'node', ...probeArguments()])
}

/** Starts a prober in the network namespace of a process, for a node or for the external network. */
export function startNetworkProber(pid: number): Promise<Prober> {
  return startProber(['nsenter', '-t', String(pid), '-n', '--', process.execPath, ...probeArguments()])
}
