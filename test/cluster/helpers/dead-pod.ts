import { readFileSync } from 'node:fs'
import type { KubeObject } from '../../../devcluster/client/kube-object.ts'
import type { Cluster } from '../../../devcluster/cluster.ts'
import { insideNetwork } from '../../../devcluster/host/links.ts'
import { runCommand } from '../../../devcluster/host/run-command.ts'
import { readState } from '../../../devcluster/host/run-folder.ts'
import { waitUntil } from '../../../devcluster/host/wait-until.ts'
import type { Cell, Outcome } from '../packets/cell.ts'
import { probeArguments } from '../packets/probe-command.ts'
import { type Prober, startProber } from '../packets/prober.ts'
import { processesOf } from './canary-search.ts'

const ENDS_MS = 30_000
const LINK = 'eth0'
/** Any address will do, because the hardware address of the link's other end is entered by hand. */
const GATEWAY = '169.254.1.1'

/** The network of a pod in which no process of the pod runs any more. */
export interface DeadPod {
  /** Connects from the pod's network with the pod's address, as a program would that has left its container. */
  readonly prober: Prober
  /** Runs a command of the shell in the pod's network and returns its output. */
  run(command: string): Promise<string>
  /** The same in the network of the node, which no policy of pods restricts. */
  runOnNode(command: string): Promise<string>
  /** The same attempts from the node. */
  probeFromNode(cells: readonly Cell[]): Promise<Outcome[]>
  /** Lets the kubelet of the node notice what happened, and remove the pod. */
  release(): void
}

/**
 * Kills every process of a pod at once: the agent, the toolbox, the relay, and the kernel of gVisor. The kubelet is
 * stopped during that time, because it would remove the network of the pod.
 */
export async function killAllOf(cluster: Cluster, pod: KubeObject): Promise<DeadPod> {
  const uid = String(pod.metadata.uid)
  const { nodePid, kubeletPid } = nodeOf(cluster, String(pod['spec'].nodeName))
  // The file servers of gVisor have no network at all.
  const held = processesOf(uid).find(({ pid }) => hasPodLink(pid))
  if (!held) throw new Error(`${pod.metadata.name} has no process in its network`)
  // The prober keeps the network of the pod after the pod's processes ended.
  const prober = await startProber(proberIn(held.pid))
  process.kill(kubeletPid, 'SIGSTOP')
  const release = () => process.kill(kubeletPid, 'SIGCONT')
  try {
    await waitUntil({ what: 'the end of all processes of the pod', timeoutMs: ENDS_MS, everyMs: 50 }, () => {
      const left = processesOf(uid)
      for (const { pid } of left) tryKill(pid)
      return left.length === 0 ? true : undefined
    })
    await takeOverAddress({ pid: prober.pid, nodePid, address: String(pod['status'].podIP) })
    const runIn = (pid: number) => (command: string) => runCommand([...insideOf(pid), 'sh', '-c', command])
    const [run, runOnNode] = [runIn(prober.pid), runIn(nodePid)]
    return { prober, release, run, runOnNode, probeFromNode: (cells) => probeFrom(nodePid, cells) }
  } catch (error) {
    release()
    await prober.stop()
    throw error
  }
}

const insideOf = (pid: number) => ['nsenter', '-t', String(pid), '-n', '--']
const proberIn = (pid: number) => [...insideOf(pid), process.execPath, ...probeArguments()]

async function probeFrom(pid: number, cells: readonly Cell[]): Promise<Outcome[]> {
  const prober = await startProber(proberIn(pid))
  try {
    return await prober.probe(cells)
  } finally {
    await prober.stop()
  }
}

function nodeOf(cluster: Cluster, name: string) {
  const state = readState(cluster.folder)
  const nodePid = state?.nodes.find((node) => node.name === name)?.pid
  const started = state?.processes.findLast((one) => one.name === `${name}-kubelet`)?.pid
  const kubeletPid = started && kubeletBelow(started)
  if (!nodePid || !kubeletPid) throw new Error(`no node ${name}`)
  return { nodePid, kubeletPid }
}

/** The kubelet is a child of the program that enters the namespaces of the node. */
function kubeletBelow(pid: number): number | undefined {
  if (readFileSync(`/proc/${pid}/comm`, 'utf8').trim() === 'kubelet') return pid
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean)
  return children.map((child) => kubeletBelow(Number(child))).find((found) => found !== undefined)
}

const hasPodLink = (pid: number): boolean => {
  try {
    return readFileSync(`/proc/${pid}/net/dev`, 'utf8').includes(`${LINK}:`)
  } catch {
    return false
  }
}

function tryKill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has just ended.
  }
}

/** gVisor has its own network stack and leaves the link without an address and without routes: this gives it both again. */
async function takeOverAddress(of: { pid: number; nodePid: number; address: string }): Promise<void> {
  const { pid, nodePid, address } = of
  const links = await runCommand([...insideOf(pid), 'ip', '-o', 'link', 'show', LINK])
  const peerIndex = /eth0@if(\d+)/.exec(links)?.[1]
  const peers = await runCommand([...insideOf(nodePid), 'ip', '-o', 'link', 'show'])
  const peer = peers.split('\n').find((line) => line.startsWith(`${peerIndex}:`))
  const hardware = / link\/ether (\S+)/.exec(peer ?? '')?.[1]
  if (!hardware) throw new Error(`no peer of the link of the pod: ${links}`)
  await insideNetwork(pid, [
    ['addr', 'replace', `${address}/32`, 'dev', LINK],
    ['link', 'set', LINK, 'up'],
    ['route', 'replace', GATEWAY, 'dev', LINK, 'scope', 'link'],
    ['neigh', 'replace', GATEWAY, 'lladdr', hardware, 'nud', 'permanent', 'dev', LINK],
    ['route', 'replace', 'default', 'via', GATEWAY],
  ])
}
