import { randomBytes } from 'node:crypto'
import { inject } from 'vitest'
import { createKubeClient } from '../../devcluster/client/kube-client.ts'
import { readKubeconfig } from '../../devcluster/client/kubeconfig.ts'
import { loadKubeConnection } from '../../runtime/sandboxes/kubernetes/client/kube-connection.ts'
import { claimsIn } from '../../runtime/sandboxes/kubernetes/client/resource.ts'
import { testKubeApi } from '../conformance/kube-api.ts'

testKubeApi('a real cluster', async () => {
  const path = inject('cluster').kubeconfig
  const client = createKubeClient(readKubeconfig(path))
  const namespace = `kube-api-${randomBytes(3).toString('hex')}`
  await client.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } })
  return {
    connection: await loadKubeConnection({ kind: 'file', path }),
    namespace,
    // The API server started to watch this collection long after its first versions.
    forgotten: { resource: claimsIn(namespace), version: '1' },
    async close() {
      await client.delete({ apiVersion: 'v1', plural: 'namespaces', name: namespace })
      await client.close()
    },
  }
})
