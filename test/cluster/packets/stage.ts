import { BlockList, isIP } from 'node:net'
import { afterAll, beforeAll, inject } from 'vitest'
import { createKubeClient, type KubeClient } from '../../kube/client/kube-client.ts'
import { readKubeconfig } from '../../kube/client/kubeconfig.ts'
import { planAddresses } from '../../kube/host/addresses.ts'
import { startDaemon } from '../../kube/host/daemon.ts'
import { logPath, readState } from '../../kube/host/run-folder.ts'
import { waitUntil } from '../../kube/host/wait-until.ts'
import { openOutside } from '../helpers/outside.ts'
import { type CiliumAgent, connectCiliumAgent } from './cilium-agent.ts'
import { type Listening, listenArguments, probeArguments } from './probe-command.ts'
import { type ProbeDns, startProbeDns } from './probe-dns.ts'
import {
  type ProbePod,
  type ProbePodPlan,
  probePodObject,
  startNetworkProber,
  startPodProber,
  waitForPodAddress,
} from './probe-pod.ts'
import { type Prober, startProber } from './prober.ts'

/** Who is there to talk to whom. Everything listens on the same ports, so that only a policy makes a difference. */
export interface StagePlan {
  readonly namespaces: readonly {
    readonly name: string
    readonly labels?: Readonly<Record<string, string>>
  }[]
  readonly pods: readonly Omit<ProbePodPlan, 'resolver'>[]
  readonly outside: { readonly addresses: readonly string[]; readonly ranges: readonly string[] }
  /** Names that the pods' resolver knows. */
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

const OUTSIDE_HOST = 3
const ACCOUNT_MS = 20_000
const GONE_MS = 60_000

/** Sets the stage before the tests of a file, and clears it after them. The answer works once they run. */
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
  await Promise.all(plan.namespaces.map((namespace) => openNamespace(client, namespace, onClose)))
  const network = await openOutside(folder, { link: 'world', hostByte: OUTSIDE_HOST, ...plan.outside })
  onClose(() => network.stop())
  const dns = await startProbeDns(client, plan.records)
  onClose(() => dns.stop())
  const single = plan.outside.addresses.filter((address) => !address.includes('/'))
  const [hostProber, outsideProber, nodeProber, pods] = await Promise.all([
    startProber([process.execPath, ...probeArguments()]),
    listenAndProbe(network.pid, { ...plan.listening, addresses: single }, onClose),
    listenAndProbe(node.pid, { ...plan.listening, addresses: [addresses.node(0)] }, onClose),
    startPods(client, { ...plan, resolver: dns.address }, onClose),
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
 * What one file has looked up opens addresses to the policies of the next, whichever that is. So names lead each file
 * to addresses of its own.
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

/** Namespaces that the cluster has anyway stay. */
async function openNamespace(
  client: KubeClient,
  { name, labels = {} }: StagePlan['namespaces'][number],
  onClose: OnClose,
): Promise<void> {
  const path = { apiVersion: 'v1', plural: 'namespaces', name }
  // The file before may have had one of the same name.
  const presence = await waitUntil({ what: `${name} to be gone`, timeoutMs: GONE_MS }, async () => {
    const found = await client.find(path)
    if (found?.metadata.deletionTimestamp) return undefined
    return found ? 'there' : 'gone'
  })
  if (presence === 'gone') {
    await client.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } })
    onClose(() => client.delete(path))
  }
  await waitUntil({ what: `the default account of ${name}`, timeoutMs: ACCOUNT_MS }, () =>
    client.find({ apiVersion: 'v1', plural: 'serviceaccounts', namespace: name, name: 'default' }),
  )
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
  readonly resolver: string
}

async function startPods(
  client: KubeClient,
  { pods, resolver }: PodsPlan,
  onClose: OnClose,
): Promise<Map<string, ProbePod>> {
  const started = await Promise.all(
    pods.map(async (pod): Promise<[string, ProbePod]> => {
      const { namespace, name } = pod
      await client.create(probePodObject({ ...pod, resolver }))
      onClose(() => client.delete({ apiVersion: 'v1', plural: 'pods', namespace, name }))
      const ip = await waitForPodAddress(client, namespace, name)
      const prober = await startPodProber(namespace, name)
      onClose(() => prober.stop())
      return [`${namespace}/${name}`, { ip, prober }]
    }),
  )
  return new Map(started)
}
