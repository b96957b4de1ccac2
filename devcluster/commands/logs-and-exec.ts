import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { HarnessError } from '../harness-error.ts'
import { tailOf } from '../host/log-tail.ts'
import type { FoundCluster } from './choose-cluster.ts'

/** The names that `logs` accepts. */
export function logNames({ folder }: FoundCluster): string[] {
  return readdirSync(join(folder, 'logs'))
    .map((name) => name.replace(/\.log$/, ''))
    .sort()
}

export function readLog(cluster: FoundCluster, name: string, lines: number): string {
  const path = join(cluster.folder, 'logs', `${name}.log`)
  if (!existsSync(path)) throw new HarnessError(`no log ${name}; there are: ${logNames(cluster).join(', ')}`)
  return tailOf(path, lines)
}

/**
 * Runs a command on the host or inside a node, with the cluster's programs on `PATH` and its kubeconfig. Returns the
 * exit code.
 */
export function runWithCluster(cluster: FoundCluster, argv: readonly string[], nodeName?: string): number {
  const { folder, state } = cluster
  const node = nodeName === undefined ? undefined : state.nodes.find(({ name }) => name === nodeName)
  if (nodeName !== undefined && !node) {
    throw new HarnessError(
      `no node ${nodeName}; there are: ${state.nodes.map(({ name }) => name).join(', ') || 'none'}`,
    )
  }
  const [program = '', ...args] = node ? ['nsenter', '-t', String(node.pid), '-a', '--', ...argv] : argv
  const path = [...state.pathFolders, process.env['PATH']].join(':')
  const env = { ...process.env, KUBECONFIG: join(folder, 'kubeconfig'), PATH: path }
  const { status, error } = spawnSync(program, args, { stdio: 'inherit', env })
  if (error) throw new HarnessError(`${program}: ${error.message}`)
  return status ?? 1
}
