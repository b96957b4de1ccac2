import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createKubeClient, type KubeClient } from '../../../devcluster/client/kube-client.ts'
import { readKubeconfig } from '../../../devcluster/client/kubeconfig.ts'
import { type Cluster, startCluster } from '../../../devcluster/cluster.ts'
import { type ClusterOptions, completeOptions } from '../../../devcluster/cluster-options.ts'
import {
  applyTree,
  type CommandResult,
  type EnvironmentChange,
  renderChanged,
  runInCluster,
} from '../../../devcluster/service/gitops-tree.ts'

export interface GitopsRig {
  readonly cluster: Cluster
  readonly client: KubeClient
  /** Renders an environment into a separate folder, with the given change to its file, and returns the tree's path. */
  render(name: string, change?: EnvironmentChange): string
  /** `npm run gitops:apply` on this cluster. */
  apply(...args: readonly string[]): Promise<CommandResult>
  kubectl(...args: readonly string[]): Promise<CommandResult>
  stop(): Promise<void>
}

/** Starts a separate cluster and a folder for its rendered trees. */
export async function startGitopsRig(options: Partial<ClusterOptions>): Promise<GitopsRig> {
  const cluster = await startCluster(completeOptions(options), (line) => process.stderr.write(`${line}\n`))
  const client = createKubeClient(readKubeconfig(cluster.kubeconfig))
  const work = mkdtempSync(join(tmpdir(), 'agentweaver-gitops-'))
  let renderings = 0
  return {
    cluster,
    client,
    render(name, change = (environment) => environment) {
      renderings += 1
      return renderChanged(join(work, String(renderings)), name, change)
    },
    apply: (...args) => applyTree(cluster, args),
    kubectl: (...args) => runInCluster(cluster, 'kubectl', args),
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
