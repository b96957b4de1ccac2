import type { KubeClient } from '../../../devcluster/client/kube-client.ts'
import { waitUntil } from '../../../devcluster/host/wait-until.ts'

interface Rule {
  readonly apiGroups: readonly string[]
  readonly resources: readonly string[]
  readonly verbs: readonly string[]
}

type Account = { readonly namespace: string; readonly name: string }

/**
 * The authorizer learns of a new role through a watch. Until then it rejects every request, and a test would prove
 * nothing.
 */
const COUNTS_MS = 10_000

/** Waits until the API server allows a service account every operation of these rules in a namespace. */
export async function untilAllowed(
  client: KubeClient,
  account: Account,
  { namespace, rules }: { readonly namespace: string; readonly rules: readonly Rule[] },
): Promise<void> {
  const user = `system:serviceaccount:${account.namespace}:${account.name}`
  const asked = rules.flatMap(({ apiGroups, resources, verbs }) =>
    apiGroups.flatMap((group) =>
      resources.flatMap((full) =>
        verbs.map((verb) => {
          const [resource, subresource] = full.split('/')
          return { namespace, group, resource, ...(subresource && { subresource }), verb }
        }),
      ),
    ),
  )
  for (const resourceAttributes of asked) {
    const { verb, resource } = resourceAttributes
    const what = `${user} to be allowed to ${verb} ${resource} in ${namespace}`
    await waitUntil({ what, timeoutMs: COUNTS_MS, everyMs: 20 }, async () => {
      const answer = await client.raw({
        method: 'POST',
        url: '/apis/authorization.k8s.io/v1/subjectaccessreviews',
        body: {
          apiVersion: 'authorization.k8s.io/v1',
          kind: 'SubjectAccessReview',
          spec: { user, resourceAttributes },
        },
      })
      return JSON.parse(answer).status?.allowed === true ? true : undefined
    })
  }
}
