import type { TestProject } from 'vitest/node'
import { createKubeClient } from '../../kube/client/kube-client.ts'
import { readKubeconfig } from '../../kube/client/kubeconfig.ts'
import { startCluster } from '../../kube/cluster.ts'
import { completeOptions } from '../../kube/cluster-options.ts'
import { auditLogPath } from '../../kube/control-plane/api-server.ts'
import { HarnessError } from '../../kube/harness-error.ts'
import { whyNoNodes } from '../../kube/host/privileges.ts'
import { type ClusterUnderTest, detectFeatures } from './features.ts'

function say(line: string): void {
  process.stderr.write(`${line}\n`)
}

let stop: () => Promise<void> = () => Promise.resolve()

/** One cluster for the whole run: ours, or the one that KUBECONFIG names when the caller has asked for that. */
export async function setup(project: TestProject): Promise<void> {
  if (process.env['AGENTWEAVER_USE_CURRENT']) await useCurrent(project)
  else await startOwn(project)
}

export async function teardown(): Promise<void> {
  await stop()
}

async function useCurrent(project: TestProject): Promise<void> {
  const kubeconfig = process.env['KUBECONFIG']
  if (!kubeconfig) throw new HarnessError('--use-current needs KUBECONFIG')
  await provide(project, { kubeconfig, folder: '', auditLog: '', binFolders: [] })
}

async function startOwn(project: TestProject): Promise<void> {
  const noNodes = whyNoNodes()
  if (noNodes) say(`${noNodes}. Suites that need a real node are skipped`)
  const real = noNodes ? {} : ({ gvisor: true, cilium: 'instant' } as const)
  const cluster = await startCluster(completeOptions({ ...real, kwokNodes: 2 }), say)
  stop = cluster.stop
  say(`cluster ${cluster.slot} is ready after ${cluster.steps['ready']} ms`)
  const { kubeconfig, folder, binFolders } = cluster
  await provide(project, { kubeconfig, folder, binFolders, auditLog: auditLogPath(folder) })
}

async function provide(project: TestProject, found: Omit<ClusterUnderTest, 'features'>): Promise<void> {
  const client = createKubeClient(readKubeconfig(found.kubeconfig))
  const features = [...(await detectFeatures(client)), ...(found.auditLog ? (['audit log'] as const) : [])]
  await client.close()
  project.provide('cluster', { ...found, features })
}
