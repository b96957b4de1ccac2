import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, inject } from 'vitest'
import { createKubeClient, type KubeClient } from '../../../devcluster/client/kube-client.ts'
import { readKubeconfig } from '../../../devcluster/client/kubeconfig.ts'
import { waitUntil } from '../../../devcluster/host/wait-until.ts'

export interface TestNamespace {
  readonly name: string
  readonly client: KubeClient
  /** A name that no other test uses. */
  unique(prefix: string): string
}

const ACCOUNT_MS = 20_000

/** Creates one namespace for a test file before its tests, and deletes it after them. */
export function useNamespace(prefix: string, labels: Readonly<Record<string, string>> = {}): TestNamespace {
  const name = `${prefix}-${randomBytes(3).toString('hex')}`
  const client = createKubeClient(readKubeconfig(inject('cluster').kubeconfig))
  let counter = 0
  beforeAll(async () => {
    await client.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } })
    // Pods are rejected until the namespace has its default service account.
    await waitUntil({ what: `the default account of ${name}`, timeoutMs: ACCOUNT_MS }, () =>
      client.find({ apiVersion: 'v1', plural: 'serviceaccounts', namespace: name, name: 'default' }),
    )
  })
  afterAll(async () => {
    await client.delete({ apiVersion: 'v1', plural: 'namespaces', name })
    await client.close()
  })
  return {
    name,
    client,
    unique(part) {
      counter += 1
      return `${part}-${counter}`
    },
  }
}
