import { spawn } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Environment } from '../../charts-src/environment/schema.ts'
import { renderProject, writeProject } from '../../charts-src/tree/synth.ts'
import type { Cluster } from '../cluster.ts'
import { HarnessError } from '../harness-error.ts'

const ROOT = join(import.meta.dirname, '..', '..')

export interface CommandResult {
  readonly code: number
  /** stdout and stderr, in the order of arrival. */
  readonly output: string
}

export type EnvironmentChange = (environment: Environment) => object

export interface Changes {
  readonly environment: EnvironmentChange
  /** Text of the egress policy. @default the file of this repository */
  readonly egress?: string | undefined
}

/**
 * Renders a changed copy of `environments/NAME.json` into `folder`, and returns the path of the rendered tree. The
 * files of the repository are not changed.
 */
export function renderChanged(folder: string, name: string, change: EnvironmentChange | Changes): string {
  const { environment: changed, egress } = typeof change === 'function' ? { environment: change } : change
  const environments = join(folder, 'environments')
  mkdirSync(environments, { recursive: true })
  const environment = JSON.parse(
    readFileSync(join(ROOT, 'environments', `${name}.json`), 'utf8'),
  ) as Environment
  writeFileSync(join(environments, `${name}.json`), JSON.stringify(changed(environment)))
  const rendering = renderProject({ root: folder, ...(egress !== undefined && { egress }) }, [name])
  if (!rendering.ok) throw new HarnessError(rendering.mistakes.join('\n'))
  writeProject({ root: folder }, rendering.trees)
  return join(folder, 'gitops', name)
}

/** Runs a program with the cluster's kubeconfig and with the cluster's programs first in `PATH`. */
export function runInCluster(
  { kubeconfig, binFolders }: Pick<Cluster, 'kubeconfig' | 'binFolders'>,
  program: string,
  args: readonly string[],
): Promise<CommandResult> {
  const PATH = [...binFolders, process.env['PATH']].join(':')
  const child = spawn(program, [...args], {
    env: { ...process.env, KUBECONFIG: kubeconfig, PATH },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  const collect = (chunk: Buffer) => {
    output += chunk.toString()
  }
  child.stdout.on('data', collect)
  child.stderr.on('data', collect)
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code) => resolve({ code: code ?? -1, output }))
  })
}

/** Runs `npm run gitops:apply` on the cluster. */
export function applyTree(
  cluster: Pick<Cluster, 'kubeconfig' | 'binFolders'>,
  args: readonly string[],
): Promise<CommandResult> {
  return runInCluster(cluster, process.execPath, [join(ROOT, 'charts-src/apply/main.ts'), ...args])
}
