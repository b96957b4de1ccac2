import type { TestProject } from 'vitest/node'
import { createKubeClient } from '../../../devcluster/client/kube-client.ts'
import { readKubeconfig } from '../../../devcluster/client/kubeconfig.ts'
import { startCluster } from '../../../devcluster/cluster.ts'
import { type ClusterOptions, completeOptions } from '../../../devcluster/cluster-options.ts'
import { auditLogPath } from '../../../devcluster/control-plane/api-server.ts'
import { HarnessError } from '../../../devcluster/harness-error.ts'
import { whyNoNodes } from '../../../devcluster/host/privileges.ts'
import { type ClusterUnderTest, detectFeatures } from './features.ts'
import { keepParameters } from './parameter-keeper.ts'

function say(line: string): void {
  process.stderr.write(`${line}\n`)
}

/**
 * Provides one cluster for a whole run: our own, or the cluster of KUBECONFIG if the caller requests it. Returns the
 * function that stops it. Without privileges, the cluster has no real nodes.
 */
export async function provideCluster(
  project: TestProject,
  wanted: Partial<ClusterOptions>,
): Promise<() => Promise<void>> {
  if (process.env['AGENTWEAVER_USE_CURRENT']) return useCurrent(project)
  const noNodes = whyNoNodes()
  if (noNodes) say(`${noNodes}. Suites that need a real node are skipped`)
  const options = noNodes ? { kwokNodes: wanted.kwokNodes ?? 0 } : wanted
  const cluster = await startCluster(completeOptions(options), say)
  say(`cluster ${cluster.slot} is ready after ${cluster.steps['ready']} ms`)
  const { kubeconfig, folder, binFolders } = cluster
  await provide(project, { kubeconfig, folder, binFolders, auditLog: auditLogPath(folder) })
  return cluster.stop
}

async function useCurrent(project: TestProject): Promise<() => Promise<void>> {
  const kubeconfig = process.env['KUBECONFIG']
  if (!kubeconfig) throw new HarnessError('--use-current needs KUBECONFIG')
  await provide(project, { kubeconfig, folder: '', auditLog: '', binFolders: [] })
  return () => Promise.resolve()
}

async function provide(project: TestProject, found: Omit<ClusterUnderTest, 'features'>): Promise<void> {
  const client = createKubeClient(readKubeconfig(found.kubeconfig))
  const features = [...(await detectFeatures(client)), ...(found.auditLog ? (['audit log'] as const) : [])]
  await keepParameters(client)
  await client.close()
  project.provide('cluster', { ...found, features })
}
