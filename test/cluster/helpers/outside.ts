import { readlinkSync } from 'node:fs'
import { planAddresses } from '../../kube/host/addresses.ts'
import { type Daemon, startDaemon } from '../../kube/host/daemon.ts'
import { insideNetwork } from '../../kube/host/links.ts'
import { runCommand } from '../../kube/host/run-command.ts'
import { logPath, readState } from '../../kube/host/run-folder.ts'
import { waitUntil } from '../../kube/host/wait-until.ts'

/** Addresses that answer on port 80; the names that the cluster's resolver knows for them are beside it. */
export const OUTSIDE = {
  allowed: '198.51.100.10',
  other: '198.51.100.20',
  wild: '198.51.100.30',
  metadata: '169.254.169.254',
} as const

const RANGES = ['198.51.100.0/24', '169.254.169.254/32']
const SERVER = `require('node:http').createServer((q, a) => a.end('outside')).listen(80, '0.0.0.0')`
const READY_MS = 10_000

/**
 * Stands for the internet: a namespace on the cluster's switch with documentation addresses and the metadata address.
 * Only on a cluster of ours, whose switch and nodes we can reach.
 */
export async function startOutside(folder: string): Promise<{ stop(): Promise<void> }> {
  const state = readState(folder)
  const switchPid = state?.processes.find(({ name }) => name === 'switch')?.pid
  if (!state || !switchPid) throw new Error(`${folder} has no switch`)
  const plan = planAddresses(state.slot)
  const gateway = plan.host.replace(/\.1$/, '.2')
  const log = logPath(folder, 'outside')
  const holder = startDaemon({
    name: 'outside',
    argv: ['unshare', '--net', '--', 'sleep', 'infinity'],
    logPath: log,
  })
  const { pid } = holder.identity
  const ours = readlinkSync('/proc/self/ns/net')
  await waitUntil(
    { what: 'a namespace', timeoutMs: READY_MS, needs: [holder] },
    () => readlinkSync(`/proc/${pid}/ns/net`) !== ours,
  )
  const peer = ['peer', 'name', 'outside', 'netns', String(switchPid)]
  await runCommand(['ip', 'link', 'add', 'out0', 'netns', String(pid), 'type', 'veth', ...peer])
  await insideNetwork(switchPid, [['link', 'set', 'outside', 'master', 'br0', 'up']])
  await insideNetwork(pid, [
    ['link', 'set', 'lo', 'up'],
    ['addr', 'add', `${gateway}/24`, 'dev', 'out0'],
    ['link', 'set', 'out0', 'up'],
    ...Object.values(OUTSIDE).map((address) => ['addr', 'add', `${address}/32`, 'dev', 'lo']),
    ...state.nodes.map((_, index) => ['route', 'add', plan.podRangeOf(index), 'via', plan.node(index)]),
  ])
  for (const node of state.nodes) {
    await insideNetwork(
      node.pid,
      RANGES.map((range) => ['route', 'replace', range, 'via', gateway]),
    )
  }
  const server = await startServer(pid, log)
  return {
    async stop() {
      await server.stop(0)
      await holder.stop(0)
    },
  }
}

async function startServer(pid: number, log: string): Promise<Daemon> {
  const inside = ['nsenter', '-t', String(pid), '-n', '--']
  const server = startDaemon({
    name: 'outside server',
    argv: [...inside, process.execPath, '-e', SERVER],
    logPath: log,
  })
  const ask = `fetch('http://127.0.0.1').then(() => process.exit(0), () => process.exit(1))`
  await waitUntil(
    { what: 'the outside to answer', timeoutMs: READY_MS, needs: [server], everyMs: 100 },
    async () => {
      await runCommand([...inside, process.execPath, '-e', ask])
      return true
    },
  )
  return server
}
