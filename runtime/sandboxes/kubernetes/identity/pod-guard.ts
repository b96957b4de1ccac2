import * as z from 'zod'
import { IDENTITY_AUDIENCE, IdentityReply } from '../../../../contracts/configure.ts'
import { AGENT_HOST_ROUTES } from '../../../../contracts/routes.ts'
import type { ConnectionGuard } from '../../../agent-host-client/connection-guard.ts'
import { messageOf, SandboxError } from '../../../kit/errors.ts'
import type { PinnedIdentity } from './identity-chain.ts'
import type { IssuerKeys } from './issuer-keys.ts'

/** Claims of a pod-bound service account token. */
const PodClaims = z.object({
  sub: z.string(),
  aud: z.union([z.string(), z.array(z.string())]),
  'kubernetes.io': z.object({
    namespace: z.string(),
    pod: z.object({ name: z.string(), uid: z.string() }),
    serviceaccount: z.object({ name: z.string() }),
  }),
})

/** Accepts a connection only from the pinned pod, which must return its own token, signed for our audience only. */
export function createPodGuard(keys: IssuerKeys, pinned: PinnedIdentity): ConnectionGuard {
  return {
    async verify(connection) {
      const { status, body } = await connection.get(AGENT_HOST_ROUTES.identity)
      if (status !== 200) throw refused(`it responded with ${status} to ${AGENT_HOST_ROUTES.identity}`)
      const claims = await readToken(keys, tokenIn(body))
      const mismatch = differenceOf(claims, pinned)
      if (mismatch !== undefined) throw refused(mismatch)
    },
  }
}

function tokenIn(body: string): string {
  try {
    return IdentityReply.parse(JSON.parse(body)).token
  } catch (error) {
    throw refused('its identity has an unknown format', error)
  }
}

async function readToken(keys: IssuerKeys, token: string): Promise<z.infer<typeof PodClaims>> {
  try {
    return PodClaims.parse(await keys.verify(token, IDENTITY_AUDIENCE))
  } catch (error) {
    throw refused(`its token is not accepted: ${messageOf(error)}`, error)
  }
}

function differenceOf(claims: z.infer<typeof PodClaims>, pinned: PinnedIdentity): string | undefined {
  const { namespace, pod, serviceaccount } = claims['kubernetes.io']
  if ([claims.aud].flat().length !== 1) return 'its token has more than one audience'
  if (namespace !== pinned.namespace) return 'it is in another namespace'
  if (serviceaccount.name !== pinned.serviceAccount) return 'it has another service account'
  if (claims.sub !== `system:serviceaccount:${namespace}:${serviceaccount.name}`)
    return 'its token contradicts itself'
  if (pod.uid !== pinned.podUid || pod.name !== pinned.podName) return 'it is another pod'
  return undefined
}

/** The message must not contain the token. */
const refused = (why: string, cause?: unknown) =>
  new SandboxError('identity_mismatch', `the server at the pod's address was rejected: ${why}`, { cause })
