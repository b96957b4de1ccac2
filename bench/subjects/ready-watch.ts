import { CLAIM } from '../../contracts/claim.ts'
import type { KubeClient } from '../../devcluster/client/kube-client.ts'
import { conditionOf } from '../../devcluster/client/manifests.ts'
import { waitUntil } from '../../devcluster/host/wait-until.ts'

const CLAIM_MS = 60_000

/** A bare watch of a namespace's claims: when each was shown Ready for the first time, by `performance.now()`. */
export async function watchReady(client: KubeClient, namespace: string) {
  const path = { apiVersion: `${CLAIM.group}/${CLAIM.version}`, plural: CLAIM.plural, namespace }
  const { metadata } = await client.list(path)
  const readyAt = new Map<string, number>()
  const end = new AbortController()
  const watching = (async () => {
    for await (const { object } of client.watch(path, metadata.resourceVersion, end.signal)) {
      const { name } = object.metadata
      if (conditionOf(object, 'Ready')?.status === 'True' && !readyAt.has(name))
        readyAt.set(name, performance.now())
    }
  })().catch((error: unknown) => {
    if (!end.signal.aborted) throw error
  })
  return {
    /** Of two watches in one process either may receive the event first. */
    readyAt: (name: string) =>
      waitUntil({ what: `${name} on the bare watch`, timeoutMs: CLAIM_MS, everyMs: 1 }, () =>
        readyAt.get(name),
      ),
    async stop() {
      end.abort()
      await watching
    },
  }
}
