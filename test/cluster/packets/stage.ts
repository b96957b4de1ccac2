import { BlockList, isIP } from 'node:net'
import { afterAll, beforeAll, inject } from 'vitest'
import { createKubeClient, type KubeClient } from '../../../devcluster/client/kube-client.ts'
import type { ResourcePath } from '../../../devcluster/client/kube-object.ts'
import { readKubeconfig } from '../../../devcluster/client/kubeconfig.ts'
import { planAddresses } from '../../../devcluster/host/addresses.ts'
import { startDaemon } from '../../../devcluster/host/daemon.ts'
import { logPath, readState } from '../../../devcluster/host/run-folder.ts'
import { waitUntil } from '../../../devcluster/host/wait-until.ts'
import { openOutside } from '../../../devcluster/service/outside-network.ts'
import { type CiliumAgent, connectCiliumAgent } from './cilium-agent.ts'
import { type Listening, listenArguments, probeArguments } from './probe-command.ts'
import { type ProbeDns, startProbeDns } from './probe-dns.ts'
import {
  followPodAddresses,
  type ProbePod,
  type ProbePodPlan,
  probePodObject,
  startNetworkProber,
  startPodProber,
} from './probe-pod.ts'
import { type Prober, startProber } from './prober.ts'

/** The endpoints of a test. All listen on the same ports, so that only a policy makes a difference. */
export interface StagePlan {
  readonly namespaces: readonly {
    readonly name: string
    readonly labels?: Readonly<Record<string, string>>
  }[]
  readonly pods: readonly Omit<ProbePodPlan, 'resolver'>[]
  readonly outside: { readonly addresses: readonly string[]; readonly ranges: readonly string[] }
  /** DNS records of the pods' resolver. */
  readonly records: Readonly<Record<string, string>>
  /** Ports of the node and of every address outside. */
  readonly listening: Listening
}

export interface Stage {
  readonly client: KubeClient
  readonly agent: CiliumAgent
  readonly dns: ProbeDns
  readonly node: { readonly name: string; readonly ip: string; readonly prober: Prober }
  readonly outside: { readonly ip: string; readonly prober: Prober }
  /** This machine, where the API server listens. */
  readonly apiServer: { readonly ip: string; readonly prober: Prober }
  /** By namespace and name. */
  pod(namespace: string, name: string): ProbePod
}

/** One stage for the plans of two suites that run at the same time. */
export function together(one: StagePlan, other: StagePlan): StagePlan {
  const ports = (protocol: 'tcp' | 'udp') => [
    ...new Set([...(one.listening[protocol] ?? []), ...(other.listening[protocol] ?? [])]),
  ]
  return {
    namespaces: [...one.namespaces, ...other.namespaces],
    pods: [...one.pods, ...other.pods],
    outside: {
      addresses: [...one.outside.addresses, ...other.outside.addresses],
      ranges: [...one.outside.ranges, ...other.outside.ranges],
    },
    records: { ...one.records, ...other.records },
    listening: { tcp: ports('tcp'), udp: ports('udp') },
  }
}

const OUTSIDE_HOST = 3
const ACCOUNT_MS = 20_000
const GONE_MS = 60_000

/**
 * Creates the test environment before the tests of a file and deletes it after them. The returned function works only
 * inside tests.
 */
export function useStage(plan: StagePlan): () => Stage {
  const closers: (() => Promise<unknown>)[] = []
  let stage: Stage | undefined
  beforeAll(async () => {
    process.once('disconnect', endWithRunner)
    stage = await setStage(plan, (close) => closers.unshift(close))
  })
  afterAll(async () => {
    for (const close of closers) await close()
    process.off('disconnect', endWithRunner)
  })
  return () => {
    if (!stage) throw new Error('the stage is not set before the tests run')
    return stage
  }
}

/** A worker outlives a runner that was killed, and would keep its listeners and probers alive. */
function endWithRunner(): void {
  process.exit(1)
}

type OnClose = (close: () => Promise<unknown>) => void

async function setStage(plan: StagePlan, onClose: OnClose): Promise<Stage> {
  const { folder, kubeconfig } = inject('cluster')
  const state = readState(folder)
  const node = state?.nodes[0]
  if (!state || !node) throw new Error('probes need a node of a cluster of ours')
  const addresses = planAddresses(state.slot)
  const client = createKubeClient(readKubeconfig(kubeconfig))
  onClose(() => client.close())
  const agent = connectCiliumAgent(folder)
  onClose(() => agent.close())
  await expectUnknown(agent, plan)
  const namespaces = openNamespaces(client, plan.namespaces, onClose)
  const network = await openOutside(folder, { link: 'world', hostByte: OUTSIDE_HOST, ...plan.outside })
  onClose(() => network.stop())
  const dns = await startProbeDns(client, plan.records)
  onClose(() => dns.stop())
  const single = plan.outside.addresses.filter((address) => !address.includes('/'))
  const [hostProber, outsideProber, nodeProber, pods] = await Promise.all([
    startProber([process.execPath, ...probeArguments()]),
    listenAndProbe(network.pid, { ...plan.listening, addresses: single }, onClose),
    listenAndProbe(node.pid, { ...plan.listening, addresses: [addresses.node(0)] }, onClose),
    startPods(client, { pods: plan.pods, namespaces, resolver: dns.address }, onClose),
    ...namespaces.values(),
  ])
  onClose(() => hostProber.stop())
  return {
    client,
    agent,
    dns,
    node: { name: node.name, ip: addresses.node(0), prober: nodeProber },
    outside: { ip: addresses.host.replace(/\.1$/, `.${OUTSIDE_HOST}`), prober: outsideProber },
    apiServer: { ip: addresses.host, prober: hostProber },
    pod(namespace, name) {
      const pod = pods.get(`${namespace}/${name}`)
      if (!pod) throw new Error(`no pod ${namespace}/${name} on the stage`)
      return pod
    },
  }
}

/**
 * Fails if the agent already knows an address of this file. The agent remembers addresses from name lookups, and would
 * allow them for the policies of the next file. So each file uses separate addresses for its names.
 */
async function expectUnknown(agent: CiliumAgent, { outside }: StagePlan): Promise<void> {
  const here = new BlockList()
  for (const address of outside.addresses) {
    const [ip = '', bits = '32'] = address.split('/')
    here.addSubnet(ip, Number(bits), 'ipv4')
  }
  const known = (await agent.learnedAddresses()).filter((ip) => isIP(ip) === 4 && here.check(ip))
  if (known.length > 0) throw new Error(`names of another file have led to ${known.join(', ')}`)
}

/** Creation of each namespace by name. A namespace of the previous file with the same name may still be terminating. */
type Namespaces = ReadonlyMap<string, Promise<void>>

/** Namespaces that the cluster has anyway stay. */
function openNamespaces(client: KubeClient, wanted: StagePlan['namespaces'], onClose: OnClose): Namespaces {
  const made: ResourcePath[] = []
  onClose(() => Promise.all(made.map((path) => client.delete(path))))
  const opened = wanted.map((one) => {
    const path = { apiVersion: 'v1', plural: 'namespaces', name: one.name }
    const namespace = openNamespace(client, one, path).then((isNew) => {
      if (isNew) made.push(path)
    })
    // The callers that await this promise receive the error. This handler only prevents an unhandled rejection before
    // that.
    namespace.catch(() => undefined)
    return [one.name, namespace] as const
  })
  return new Map(opened)
}

/** Returns whether the namespace is new. */
async function openNamespace(
  client: KubeClient,
  { name, labels = {} }: StagePlan['namespaces'][number],
  path: ResourcePath,
): Promise<boolean> {
  const presence = await waitUntil({ what: `${name} to be gone`, timeoutMs: GONE_MS }, async () => {
    const found = await client.find(path)
    if (found?.metadata.deletionTimestamp) return undefined
    return found ? 'there' : 'gone'
  })
  if (presence === 'gone') {
    await client.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } })
  }
  await waitUntil({ what: `the default account of ${name}`, timeoutMs: ACCOUNT_MS }, () =>
    client.find({ apiVersion: 'v1', plural: 'serviceaccounts', namespace: name, name: 'default' }),
  )
  return presence === 'gone'
}

/** Listeners and a prober in the network of a process that is not a pod. */
async function listenAndProbe(pid: number, listening: Listening, onClose: OnClose): Promise<Prober> {
  const { folder } = inject('cluster')
  const listener = startDaemon({
    name: `listener-${pid}`,
    argv: ['nsenter', '-t', String(pid), '-n', '--', process.execPath, ...listenArguments(listening)],
    logPath: logPath(folder, `listener-${pid}`),
  })
  onClose(() => listener.stop(0))
  const prober = await startNetworkProber(pid)
  onClose(() => prober.stop())
  return prober
}

interface PodsPlan {
  readonly pods: StagePlan['pods']
  readonly namespaces: Namespaces
  readonly resolver: string
}

async function startPods(
  client: KubeClient,
  { pods, namespaces, resolver }: PodsPlan,
  onClose: OnClose,
): Promise<Map<string, ProbePod>> {
  const closers: (() => Promise<unknown>)[] = []
  onClose(() => Promise.all(closers.map((close) => close())))
  const addressOf = followPodAddresses(client)
  const start = async (pod: StagePlan['pods'][number]): Promise<[string, ProbePod]> => {
    const { namespace, name } = pod
    await namespaces.get(namespace)
    await client.create(probePodObject({ ...pod, resolver }))
    closers.push(() => client.delete({ apiVersion: 'v1', plural: 'pods', namespace, name }))
    const ip = await addressOf(namespace, name)
    const prober = await startPodProber(namespace, name)
    closers.push(() => prober.stop())
    return [`${namespace}/${name}`, { ip, prober }]
  }
  return new Map(await Promise.all(pods.map(start)))
}
