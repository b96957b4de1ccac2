import { readFileSync } from 'node:fs'
import { Agent, request } from 'undici'
import type { KubeObject } from '../../../devcluster/client/kube-object.ts'
import { type ClusterState, logPath, readState } from '../../../devcluster/host/run-folder.ts'
import { waitUntil } from '../../../devcluster/host/wait-until.ts'

/** Client for a node's Cilium agent. It queries the agent's socket for the state of the policies. */
export interface CiliumAgent {
  /** Waits until these policies and none of the others are in the kernel for every pod of the namespaces. */
  waitUntilRealised(wanted: Wanted): Promise<void>
  /** Whether it took a policy into its rules at all. */
  hasTaken(policy: KubeObject): Promise<boolean>
  /**
   * Addresses learned from name lookups. The agent remembers them for a long time, and allows them for every pod with a
   * selector of that name.
   */
  learnedAddresses(): Promise<readonly string[]>
  /** The agent's log lines that contain all words. */
  logLines(...words: readonly string[]): string[]
  /** Suspends the agent's process while `work` runs, to simulate a hung agent. */
  whileItHangs<T>(work: () => Promise<T>): Promise<T>
  close(): Promise<void>
}

export interface Wanted {
  readonly namespaces: readonly string[]
  readonly present?: readonly KubeObject[]
  readonly absent?: readonly KubeObject[]
  /** @default 20 seconds */
  readonly timeoutMs?: number
}

interface AgentEndpoint {
  readonly status: {
    readonly state: string
    readonly identity?: { readonly labels: readonly string[] }
    readonly policy?: { readonly realized?: { readonly 'policy-revision'?: number } }
  }
}

const REALISED_MS = 20_000
/** Each response lists every rule or every pod, which costs the agent some milliseconds. */
const POLL_MS = 40

/** The agent of the only node: the suites that query the agent run on a cluster with one node. */
export function connectCiliumAgent(folder: string): CiliumAgent {
  const state = readState(folder)
  const node = state?.nodes[0]
  if (!state || !node) throw new Error(`${folder} has no node`)
  // The socket is in the node's mount namespace, which `/proc/PID/root` exposes.
  const socketPath = `/proc/${node.pid}/root/run/cilium/cilium.sock`
  const dispatcher = new Agent({ connect: { socketPath } })

  async function ask<T>(path: string): Promise<T> {
    const { statusCode, body } = await request(`http://agent/v1${path}`, { dispatcher })
    if (statusCode !== 200) throw new Error(`${path}: ${statusCode} ${await body.text()}`)
    return (await body.json()) as T
  }

  /** For an empty list, the agent returns 404. */
  async function askMany<T>(path: string): Promise<readonly T[]> {
    const { statusCode, body } = await request(`http://agent/v1${path}`, { dispatcher })
    const text = await body.text()
    if (statusCode === 404) return []
    if (statusCode !== 200) throw new Error(`${path}: ${statusCode} ${text}`)
    return JSON.parse(text) as T[]
  }

  const rules = () => ask<{ revision: number; policy: string }>('/policy')

  /** The revision at which exactly the wanted policies are in the agent's rules. */
  async function revisionWith({ present = [], absent = [] }: Wanted): Promise<number | undefined> {
    const { revision, policy } = await rules()
    const missing = present.find((object) => !policy.includes(uidOf(object)))
    const left = absent.find((object) => policy.includes(uidOf(object)))
    if (missing) throw new Error(`the agent has not taken ${missing.metadata.name}`)
    if (left) throw new Error(`the agent still has ${left.metadata.name}`)
    return revision
  }

  return {
    async waitUntilRealised(wanted) {
      const { timeoutMs = REALISED_MS, namespaces } = wanted
      const wait = { timeoutMs, everyMs: POLL_MS }
      const revision = await waitUntil({ ...wait, what: 'the agent to take the policies' }, () =>
        revisionWith(wanted),
      )
      await waitUntil({ ...wait, what: `revision ${revision} in the kernel` }, async () => {
        const pods = (await ask<AgentEndpoint[]>('/endpoint')).filter((one) => isIn(one, namespaces))
        if (pods.length === 0) throw new Error(`the agent knows no pod of ${namespaces}`)
        return pods.every((one) => hasRealised(one, revision))
      })
    },
    hasTaken: async (policy) => (await rules()).policy.includes(uidOf(policy)),
    learnedAddresses: async () =>
      (await askMany<{ ips?: readonly string[] }>('/fqdn/cache')).flatMap(({ ips }) => ips ?? []),
    logLines: (...words) =>
      readFileSync(logPath(folder, `${node.name}-cilium`), 'utf8')
        .split('\n')
        .filter((line) => words.every((word) => line.includes(word))),
    async whileItHangs(work) {
      const pid = agentPid(state, node.name)
      process.kill(pid, 'SIGSTOP')
      try {
        return await work()
      } finally {
        process.kill(pid, 'SIGCONT')
      }
    },
    close: () => dispatcher.destroy(),
  }
}

/** The recorded process entered the node's namespaces; the agent is its child. */
function agentPid({ processes }: ClusterState, node: string): number {
  const entered = processes.find(({ name }) => name === `${node}-cilium`)?.pid
  const children = readFileSync(`/proc/${entered}/task/${entered}/children`, 'utf8').trim()
  const pid = Number(children.split(' ')[0])
  const program = readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  if (!program.includes('cilium-agent')) throw new Error(`${pid} is not the agent of ${node}`)
  return pid
}

function uidOf({ kind, metadata }: KubeObject): string {
  if (!metadata.uid) throw new Error(`${kind} ${metadata.name} has not been created`)
  return metadata.uid
}

function isIn({ status }: AgentEndpoint, namespaces: readonly string[]): boolean {
  const labels = status.identity?.labels ?? []
  return namespaces.some((name) => labels.includes(`k8s:io.kubernetes.pod.namespace=${name}`))
}

function hasRealised({ status }: AgentEndpoint, revision: number): boolean {
  return status.state === 'ready' && (status.policy?.realized?.['policy-revision'] ?? 0) >= revision
}
