import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { names } from '../../../contracts/names.ts'
import { startFakeKubeApi } from '../kube-api.ts'
import { startFakePod } from './fake-pod.ts'
import { startSandboxController } from './sandbox-controller.ts'

const { namespaces, serviceAccounts } = names({ kind: 'base' })

/** Environment variables for a service on the fake cluster. The kubeconfig is written to `folder`. */
export async function clusterEnv(folder: string, server: string) {
  const kubeconfig = join(folder, 'kubeconfig')
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'fake', cluster: { server, 'insecure-skip-tls-verify': true } }],
    users: [{ name: 'user', user: {} }],
    contexts: [{ name: 'fake', context: { cluster: 'fake', user: 'user' } }],
    'current-context': 'fake',
  }
  await mkdir(folder, { recursive: true })
  await writeFile(kubeconfig, JSON.stringify(config))
  return {
    AGENTWEAVER_SANDBOXES: 'kubernetes',
    AGENTWEAVER_DEPLOYMENT_ID: 'test',
    AGENTWEAVER_RUNTIME_CLASS: 'none',
    AGENTWEAVER_KUBECONFIG: kubeconfig,
  }
}

/** A fake API server, the controller on it, and the one pod that every sandbox there has. */
export async function startFakeCluster(folder: string) {
  const fake = await startFakeKubeApi()
  const plain = startSandboxController(fake, { namespace: namespaces.sandboxes, serviceAccount: '' })
  plain.stop()
  const pod = await startFakePod(fake, plain.paths.pods)
  const documents = new Map(fake.documents)
  const account = { namespace: namespaces.sandboxes, serviceAccount: serviceAccounts.agentHost }
  const controller = startSandboxController(fake, { ...account, podIp: pod.ip })
  for (const [path, document] of documents) fake.documents.set(path, document)
  return {
    fake,
    pod,
    controller,
    env: await clusterEnv(folder, fake.url),
    async close(): Promise<void> {
      await pod.close()
      await fake.close()
    },
  }
}
