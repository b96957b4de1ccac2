import { testKubeApi } from '../../conformance/kube-api.ts'
import { startFakeKubeApi } from '../../fakes/kube-api.ts'
import { NAMESPACE, plainConnection } from './kube-rig.ts'

testKubeApi('the fake of the unit tests', async () => {
  const fake = await startFakeKubeApi()
  fake.store.compact()
  return {
    connection: plainConnection(fake.url),
    namespace: NAMESPACE,
    forgotten: { resource: { apiVersion: 'v1', plural: 'configmaps', namespace: NAMESPACE }, version: '1' },
    close: fake.close,
  }
})
