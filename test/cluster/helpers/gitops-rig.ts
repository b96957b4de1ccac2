import { spawn } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Environment } from '../../../charts-src/environment/schema.ts'
import { renderProject, writeProject } from '../../../charts-src/tree/synth.ts'
import { createKubeClient, type KubeClient } from '../../../devcluster/client/kube-client.ts'
import { readKubeconfig } from '../../../devcluster/client/kubeconfig.ts'
import { type Cluster, startCluster } from '../../../devcluster/cluster.ts'
import { type ClusterOptions, completeOptions } from '../../../devcluster/cluster-options.ts'

const ROOT = join(import.meta.dirname, '..', '..', '..')

export interface CommandResult {
  readonly code: number
  readonly output: string
}

export interface GitopsRig {
  readonly cluster: Cluster
  readonly client: KubeClient
  /** Renders an environment into a folder of its own, changed as a person would change its file; answers the tree. */
  render(name: string, change?: (environment: Environment) => object): string
  /** `npm run gitops:apply` on this cluster. */
  apply(...args: readonly string[]): Promise<CommandResult>
  kubectl(...args: readonly string[]): Promise<CommandResult>
  stop(): Promise<void>
}

/** A cluster of its own, and a place to render trees for it. */
export async function startGitopsRig(options: Partial<ClusterOptions>): Promise<GitopsRig> {
  const cluster = await startCluster(completeOptions(options), (line) => process.stderr.write(`${line}\n`))
  const client = createKubeClient(readKubeconfig(cluster.kubeconfig))
  const work = mkdtempSync(join(tmpdir(), 'agentweaver-gitops-'))
  const env = {
    ...process.env,
    KUBECONFIG: cluster.kubeconfig,
    PATH: [...cluster.binFolders, process.env['PATH']].join(':'),
  }
  let renderings = 0
  return {
    cluster,
    client,
    render(name, change = (environment) => environment) {
      renderings += 1
      const root = join(work, String(renderings))
      mkdirSync(join(root, 'environments'), { recursive: true })
      const environment = JSON.parse(
        readFileSync(join(ROOT, 'environments', `${name}.json`), 'utf8'),
      ) as Environment
      writeFileSync(join(root, 'environments', `${name}.json`), JSON.stringify(change(environment)))
      const rendering = renderProject({ root }, [name])
      if (!rendering.ok) throw new Error(rendering.mistakes.join('\n'))
      writeProject({ root }, rendering.trees)
      return join(root, 'gitops', name)
    },
    apply: (...args) => run(process.execPath, [join(ROOT, 'charts-src/apply/main.ts'), ...args], env),
    kubectl: (...args) => run('kubectl', args, env),
    async stop() {
      await client.close()
      await cluster.stop()
      rmSync(work, { recursive: true, force: true })
    },
  }
}

/** A copy of a tree, to be damaged. */
export function copyTree(tree: string): string {
  const copy = mkdtempSync(join(tmpdir(), 'agentweaver-tree-'))
  cpSync(tree, copy, { recursive: true })
  return copy
}

function run(program: string, args: readonly string[], env: NodeJS.ProcessEnv): Promise<CommandResult> {
  const child = spawn(program, [...args], { env, stdio: ['ignore', 'pipe', 'pipe'] })
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
