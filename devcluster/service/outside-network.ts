import { readlinkSync } from 'node:fs'
import { HarnessError } from '../harness-error.ts'
import { planAddresses } from '../host/addresses.ts'
import { startDaemon } from '../host/daemon.ts'
import { insideNetwork } from '../host/links.ts'
import { runCommand } from '../host/run-command.ts'
import { logPath, readState } from '../host/run-folder.ts'
import { waitUntil } from '../host/wait-until.ts'

const READY_MS = 10_000
/** Suites that run at the same time share one link name. The longest holds it for 80 s. */
const TURN_MS = 150_000

/** A network outside the cluster: its addresses, and its link on the cluster's switch. */
export interface OutsidePlan {
  /** The link's name on the switch. If a link with this name exists, `openOutside` waits until it is gone. */
  readonly link: string
  /** The last byte of the namespace's address on the node network. Lower than the bytes of the nodes. */
  readonly hostByte: number
  /** Addresses of the namespace. In a range, all addresses are local. */
  readonly addresses: readonly string[]
  /** The ranges that the nodes route to the namespace. */
  readonly ranges: readonly string[]
}

export interface OutsideNetwork {
  /** A process in the network namespace. `nsenter` enters the namespace through it. */
  readonly pid: number
  stop(): Promise<void>
}

/**
 * A network namespace with its own addresses on the cluster's switch, standing for hosts outside the cluster. The
 * host's own network is not changed: the addresses exist in the namespace, and the routes to them in the nodes.
 */
export async function openOutside(folder: string, plan: OutsidePlan): Promise<OutsideNetwork> {
  const state = readState(folder)
  const switchPid = state?.processes.find(({ name }) => name === 'switch')?.pid
  if (!state || !switchPid) throw new HarnessError(`${folder} has no switch`)
  const cluster = planAddresses(state.slot)
  const gateway = cluster.host.replace(/\.1$/, `.${plan.hostByte}`)
  const holder = startDaemon({
    name: plan.link,
    argv: ['unshare', '--net', '--', 'sleep', 'infinity'],
    logPath: logPath(folder, plan.link),
  })
  const { pid } = holder.identity
  const ours = readlinkSync('/proc/self/ns/net')
  await waitUntil(
    { what: 'a namespace', timeoutMs: READY_MS, needs: [holder] },
    () => readlinkSync(`/proc/${pid}/ns/net`) !== ours,
  )
  const peer = ['peer', 'name', plan.link, 'netns', String(switchPid)]
  await waitUntil(
    { what: `the link ${plan.link} to be free`, timeoutMs: TURN_MS, needs: [holder], everyMs: 500 },
    async () => {
      await runCommand(['ip', 'link', 'add', 'out0', 'netns', String(pid), 'type', 'veth', ...peer])
      return true
    },
  )
  await insideNetwork(switchPid, [['link', 'set', plan.link, 'master', 'br0', 'up']])
  await insideNetwork(pid, [
    ['link', 'set', 'lo', 'up'],
    ['addr', 'add', `${gateway}/24`, 'dev', 'out0'],
    ['link', 'set', 'out0', 'up'],
    ...plan.addresses.map((address) => ['addr', 'add', withPrefix(address), 'dev', 'lo']),
    ...state.nodes.map((_, index) => ['route', 'add', cluster.podRangeOf(index), 'via', cluster.node(index)]),
  ])
  const routes = plan.ranges.map((range) => ['route', 'replace', range, 'via', gateway])
  // An earlier namespace may have had this address, and the nodes cache its link address for a while.
  const forget = ['neigh', 'flush', 'to', gateway]
  for (const node of state.nodes) await insideNetwork(node.pid, [forget, ...routes])
  return {
    pid,
    async stop() {
      // The kernel deletes the link with its namespace, but only later, and the next network needs the same name.
      // An error is ignored: the link may be gone already, and it is deleted with the switch in any case.
      await insideNetwork(switchPid, [['link', 'del', plan.link]]).catch(() => undefined)
      await holder.stop(0)
    },
  }
}

const withPrefix = (address: string) => (address.includes('/') ? address : `${address}/32`)
