import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { inject, onTestFinished } from 'vitest'
import { CLAIM } from '../../../contracts/claim.ts'
import { IDENTITY_AUDIENCE } from '../../../contracts/configure.ts'
import { AGENT_HOST_ROUTES } from '../../../contracts/routes.ts'
import { createKubeClient, type KubeClient } from '../../../devcluster/client/kube-client.ts'
import type { KubeObject } from '../../../devcluster/client/kube-object.ts'
import { readKubeconfig } from '../../../devcluster/client/kubeconfig.ts'
import { connectAgentHost } from '../../../runtime/agent-host-client/connection.ts'
import type { BoundSandbox } from '../../../runtime/sandboxes/provider.ts'
import type { TestNamespace } from './namespace.ts'
import { untilAllowed } from './until-allowed.ts'

const TOKEN_SECONDS = 600

/**
 * An attacker who controls a tenant of the sandbox namespace with far too many permissions: all verbs on claims,
 * Sandboxes and pods there, including their status, and nothing elsewhere.
 */
export async function becomeAttacker(space: TestNamespace): Promise<KubeClient> {
  const { client, name: namespace } = space
  const attacker = space.unique('attacker')
  const metadata = { name: attacker, namespace }
  const rbac = 'rbac.authorization.k8s.io'
  await client.create({ apiVersion: 'v1', kind: 'ServiceAccount', metadata })
  const verbs = ['*']
  const coreGroup = CLAIM.group.replace('extensions.', '')
  const rules = [
    { apiGroups: [CLAIM.group], resources: ['sandboxclaims', 'sandboxclaims/status'], verbs },
    { apiGroups: [coreGroup], resources: ['sandboxes', 'sandboxes/status'], verbs },
    { apiGroups: [''], resources: ['pods', 'pods/status'], verbs },
  ]
  await client.create({ apiVersion: `${rbac}/v1`, kind: 'Role', metadata, rules })
  await client.create({
    apiVersion: `${rbac}/v1`,
    kind: 'RoleBinding',
    metadata,
    roleRef: { apiGroup: rbac, kind: 'Role', name: attacker },
    subjects: [{ kind: 'ServiceAccount', name: attacker, namespace }],
  })
  await untilAllowed(client, metadata, { namespace, rules })
  const token = await requestToken(space, { account: attacker })
  const { server, ca } = readKubeconfig(inject('cluster').kubeconfig)
  const own = createKubeClient({ server, ...(ca && { ca }), token })
  onTestFinished(() => own.close())
  return own
}

type Wanted = { readonly account?: string; readonly audience?: string; readonly pod?: KubeObject }

/** A token as the kubelet projects it into a pod: signed by this cluster, bound to the pod. */
export async function requestToken(
  { client, name: namespace }: TestNamespace,
  { account = 'default', audience, pod }: Wanted,
): Promise<string> {
  const path = { apiVersion: 'v1', plural: 'serviceaccounts', namespace, name: account, subresource: 'token' }
  const boundObjectRef = pod && {
    apiVersion: 'v1',
    kind: 'Pod',
    name: pod.metadata.name,
    uid: pod.metadata.uid,
  }
  const answer = await client.post(path, {
    apiVersion: 'authentication.k8s.io/v1',
    kind: 'TokenRequest',
    spec: {
      expirationSeconds: TOKEN_SECONDS,
      ...(audience && { audiences: [audience] }),
      ...(boundObjectRef && { boundObjectRef }),
    },
  })
  return String(answer['status'].token)
}

export const podToken = (space: TestNamespace, pod: KubeObject): Promise<string> =>
  requestToken(space, { pod, audience: IDENTITY_AUDIENCE })

/** A server on the address of a pod. It claims the identity from the token and records every request. */
export async function startListener(identity: () => string) {
  const received: string[] = []
  const server = createServer((request, response) => {
    received.push(`${request.method} ${request.url} ${request.headers.authorization ?? ''}`.trim())
    const body = JSON.stringify(
      request.url === AGENT_HOST_ROUTES.identity ? { token: identity() } : { ok: true },
    )
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length }).end(body)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return {
    baseUrl: `http://127.0.0.1:${port}`,
    received,
    /** Ends every connection, as a pod's death does. */
    hangUp: () => server.closeAllConnections(),
  }
}

/** The API's client of a sandbox, unchanged except for its address, which points to a listener of the test. */
export function connectTo({ address }: BoundSandbox, { baseUrl }: { baseUrl: string }, bearer: string) {
  if (!('guard' in address)) throw new Error('a sandbox of the cluster has a guarded address')
  const connection = connectAgentHost({ baseUrl, guard: address.guard }, bearer)
  onTestFinished(() => connection.close())
  return connection
}
