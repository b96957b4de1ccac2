import { readdirSync, readlinkSync } from 'node:fs'
import type { AddressPlan } from './addresses.ts'
import { type Daemon, startDaemon } from './daemon.ts'
import { runCommand } from './run-command.ts'
import { waitUntil } from './wait-until.ts'

/** The name by which `status` and the clean-up find a cluster's network. The kernel allows 15 characters. */
export const linkName = (slot: number) => `awkube${slot}`

/** Ranges that this machine routes, without the default route. */
export async function routedRanges(): Promise<string[]> {
  const out = await runCommand(['ip', '-4', 'route', 'show', 'table', 'main'])
  return out.split('\n').flatMap((line) => /^(\d+\.\d+\.\d+\.\d+(?:\/\d+)?) /.exec(line)?.[1] ?? [])
}

export function linkExists(name: string): boolean {
  return readdirSync('/sys/class/net').includes(name)
}

/**
 * A link can disappear at any time after the namespace of its other end has ended, so a missing link is not an error.
 */
export async function deleteLink(name: string): Promise<void> {
  if (!linkExists(name)) return
  try {
    await runCommand(['ip', 'link', 'del', name])
  } catch (error) {
    if (linkExists(name)) throw error
  }
}

/** The network of one cluster: a switch in its own namespace, with one port for the host and one per node. */
export interface ClusterNetwork {
  readonly switchDaemon: Daemon
  attach(index: number, nodePid: number): Promise<void>
}

/**
 * Changes only one link and its routes on the host, and no IP forwarding or firewall rule. Everything is removed with
 * the namespace, whose only process cannot outlive this one.
 */
export async function createNetwork(
  slot: number,
  plan: AddressPlan,
  logPath: string,
): Promise<ClusterNetwork> {
  const argv = ['unshare', '--net', '--', 'sleep', 'infinity']
  const switchDaemon = startDaemon({ name: 'switch', argv, logPath })
  const { pid } = switchDaemon.identity
  const ours = readlinkSync('/proc/self/ns/net')
  await waitUntil(
    { what: 'the network namespace', timeoutMs: 5_000, needs: [switchDaemon], everyMs: 2 },
    () => (isInside(pid, ours) ? true : undefined),
  )
  const link = linkName(slot)
  await deleteLink(link)
  await runCommand(['ip', 'link', 'add', link, 'type', 'veth', 'peer', 'name', 'host0', 'netns', String(pid)])
  await insideNetwork(pid, [
    ['link', 'set', 'lo', 'up'],
    ['link', 'add', 'br0', 'type', 'bridge'],
    ['link', 'set', 'br0', 'up'],
    ['link', 'set', 'host0', 'master', 'br0', 'up'],
  ])
  await runCommand(['ip', 'addr', 'add', `${plan.host}/24`, 'dev', link])
  await runCommand(['ip', 'link', 'set', link, 'up'])
  return {
    switchDaemon,
    attach: (index, nodePid) => attachNode({ slot, plan, switchPid: pid, index, nodePid }),
  }
}

function isInside(pid: number, ours: string): boolean {
  return readlinkSync(`/proc/${pid}/ns/net`) !== ours
}

interface Attachment {
  readonly slot: number
  readonly plan: AddressPlan
  readonly switchPid: number
  readonly index: number
  readonly nodePid: number
}

async function attachNode({ slot, plan, switchPid, index, nodePid }: Attachment): Promise<void> {
  const port = `node${index}`
  const peer = ['peer', 'name', port, 'netns', String(switchPid)]
  await runCommand(['ip', 'link', 'add', 'node0', 'netns', String(nodePid), 'type', 'veth', ...peer])
  await insideNetwork(switchPid, [['link', 'set', port, 'master', 'br0', 'up']])
  await insideNetwork(nodePid, [
    ['link', 'set', 'lo', 'up'],
    ['addr', 'add', `${plan.node(index)}/24`, 'dev', 'node0'],
    ['link', 'set', 'node0', 'up'],
    ['route', 'add', 'default', 'via', plan.host],
  ])
  await runCommand([
    'ip',
    'route',
    'add',
    plan.podRangeOf(index),
    'via',
    plan.node(index),
    'dev',
    linkName(slot),
  ])
}

/** Runs several `ip` commands at once in the network namespace of a process. */
export async function insideNetwork(pid: number, commands: readonly (readonly string[])[]): Promise<void> {
  for (const command of commands) await runCommand(['nsenter', '-t', String(pid), '-n', 'ip', ...command])
}
