import { expect, inject, it } from 'vitest'
import { createKubeClient, type KubeClient } from '../../devcluster/client/kube-client.ts'
import { readKubeconfig } from '../../devcluster/client/kubeconfig.ts'
import { waitUntil } from '../../devcluster/host/wait-until.ts'
import { createAuditLog } from './helpers/audit-log.ts'
import { describeWith } from './helpers/features.ts'
import { useNamespace } from './helpers/namespace.ts'
import { createPod, execInPod, quickPodSpec, realPodSpec, waitUntilPodReady } from './helpers/pods.ts'

/** Decodes a JSON Web Token without verification. */
function claimsOf(token: string): { aud: string[]; sub: string } {
  return JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString('utf8'))
}

describeWith(['audit log'], 'the control plane', () => {
  const space = useNamespace('fidelity')
  const { kubeconfig, folder, auditLog } = inject('cluster')

  async function tokenFor(account: string, audiences?: string[]): Promise<string> {
    const metadata = { name: account, namespace: space.name }
    await space.client.apply({ apiVersion: 'v1', kind: 'ServiceAccount', metadata })
    const path = {
      apiVersion: 'v1',
      plural: 'serviceaccounts',
      namespace: space.name,
      name: account,
      subresource: 'token',
    }
    const spec = { expirationSeconds: 600, ...(audiences ? { audiences } : {}) }
    const answer = await space.client.post(path, {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec,
    })
    return String(answer['status'].token)
  }

  async function withToken<T>(token: string, work: (client: KubeClient) => Promise<T>): Promise<T> {
    const { server, ca = '' } = readKubeconfig(kubeconfig)
    const client = createKubeClient({ server, ca, token })
    try {
      return await work(client)
    } finally {
      await client.close()
    }
  }

  const pods = { apiVersion: 'v1', plural: 'pods', namespace: space.name }

  it('issues tokens for an audience, and rejects a token for another audience', async () => {
    const token = await tokenFor('caller', ['agent-host'])

    expect(claimsOf(token).aud).toEqual(['agent-host'])
    await expect(withToken(token, (client) => client.list(pods))).rejects.toMatchObject({ status: 401 })
  })

  it('permits exactly the verbs that a role grants', async () => {
    const token = await tokenFor('reader')
    await expect(withToken(token, (client) => client.list(pods))).rejects.toMatchObject({ status: 403 })
    const metadata = { name: 'reader', namespace: space.name }
    const rbac = 'rbac.authorization.k8s.io'
    await space.client.create({
      apiVersion: `${rbac}/v1`,
      kind: 'Role',
      metadata,
      ...{ rules: [{ apiGroups: [''], resources: ['pods'], verbs: ['list'] }] },
    })
    await space.client.create({
      apiVersion: `${rbac}/v1`,
      kind: 'RoleBinding',
      metadata,
      roleRef: { apiGroup: rbac, kind: 'Role', name: 'reader' },
      subjects: [{ kind: 'ServiceAccount', name: 'reader', namespace: space.name }],
    })

    const list = await waitUntil({ what: 'the role to count', timeoutMs: 5_000 }, () =>
      withToken(token, (client) => client.list(pods)),
    )

    expect(list.items).toEqual([])
  })

  it('counts requests by caller and resource', async () => {
    const audit = createAuditLog(auditLog)
    const token = await tokenFor('counted')
    const user = `system:serviceaccount:${space.name}:counted`

    await Promise.allSettled([1, 2, 3].map(() => withToken(token, (client) => client.list(pods))))

    await waitUntil(
      { what: 'the audit log', timeoutMs: 5_000 },
      () => audit.count({ user }) === 3 || undefined,
    )
    expect(audit.count({ user, verb: 'list', resource: 'pods' })).toBe(3)
    expect(audit.count({ user, verb: 'delete' })).toBe(0)
  })

  it('restricts a node to its own objects', async () => {
    const client = createKubeClient(readKubeconfig(`${folder}/kubeconfigs/node0`))
    const labels = { 'node-role.kubernetes.io/master': '' }
    const patch = client.mergePatch(
      { apiVersion: 'v1', plural: 'nodes', name: 'node0' },
      { metadata: { labels } },
    )

    await expect(patch).rejects.toMatchObject({ status: 403 })
    await expect(client.list({ apiVersion: 'v1', plural: 'secrets' })).rejects.toMatchObject({ status: 403 })
    await client.close()
  })

  it('enforces a validating admission policy', async () => {
    const name = `no-${space.name}`
    const api = 'admissionregistration.k8s.io/v1'
    const rule = { apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['configmaps'] }
    const namespaceSelector = { matchLabels: { 'kubernetes.io/metadata.name': space.name } }
    await space.client.create({
      apiVersion: api,
      kind: 'ValidatingAdmissionPolicy',
      metadata: { name },
      spec: {
        failurePolicy: 'Fail',
        matchConstraints: { resourceRules: [rule], namespaceSelector },
        validations: [{ expression: "object.metadata.name != 'forbidden'", message: 'not that name' }],
      },
    })
    await space.client.create({
      apiVersion: api,
      kind: 'ValidatingAdmissionPolicyBinding',
      metadata: { name },
      spec: { policyName: name, validationActions: ['Deny'] },
    })
    const map = (of: string) => ({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: of, namespace: space.name },
    })

    const refusal = await waitUntil({ what: 'the policy to count', timeoutMs: 10_000 }, () =>
      space.client.create(map('forbidden'), { dryRun: 'All' }).then(
        () => undefined,
        (error: Error) => error.message,
      ),
    )

    expect(refusal).toMatch(/not that name/)
    await space.client.create(map('allowed'), { dryRun: 'All' })
    await space.client.delete({ apiVersion: api, plural: 'validatingadmissionpolicybindings', name })
    await space.client.delete({ apiVersion: api, plural: 'validatingadmissionpolicies', name })
  })
})

describeWith([], 'pod security', () => {
  const space = useNamespace('restricted', { 'pod-security.kubernetes.io/enforce': 'restricted' })

  it('rejects a pod that is not restricted', async () => {
    const spec = quickPodSpec({ hostNetwork: true })

    await expect(createPod(space, 'open', { spec })).rejects.toMatchObject({ status: 403 })
  })

  it('accepts a restricted pod', async () => {
    await createPod(space, 'closed', { spec: realPodSpec() })
  })
})

describeWith(['real node', 'cluster DNS'], 'a pod', () => {
  const space = useNamespace('inside')
  const TOKEN = '/var/run/secrets/kubernetes.io/serviceaccount'

  it('reaches the API server by its cluster name with its token', async () => {
    await createPod(space, 'client', { spec: realPodSpec({ automountServiceAccountToken: true }) })
    await waitUntilPodReady(space, 'client')
    const script = `
      const fs = require('node:fs'), https = require('node:https')
      const read = (name) => fs.readFileSync('${TOKEN}/' + name, 'utf8')
      const headers = { authorization: 'Bearer ' + read('token') }
      https.get('https://kubernetes.default.svc/version', { ca: read('ca.crt'), headers }, (answer) => {
        console.log(answer.statusCode); answer.resume()
      }).on('error', (error) => console.log(error.message))`

    const { output } = await execInPod(space, 'client', ['node', '-e', script])

    expect(output).toBe('200')
  })

  it('reaches the pods of a Service by its short name', async () => {
    const labels = { app: 'served' }
    await createPod(space, 'server', { labels })
    await createPod(space, 'visitor')
    await space.client.create({
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 'served', namespace: space.name },
      spec: { selector: labels, ports: [{ port: 80, targetPort: 8080 }] },
    })
    await waitUntilPodReady(space, 'server')
    await waitUntilPodReady(space, 'visitor')
    const script =
      "fetch('http://served/healthz').then((r) => r.text()).then((t) => console.log(t.trim()), (e) => console.log(e.message))"

    const answer = await waitUntil(
      { what: 'the Service to answer', timeoutMs: 15_000, everyMs: 250 },
      async () => {
        const { output } = await execInPod(space, 'visitor', ['node', '-e', script])
        return output === 'ok' ? output : undefined
      },
    )

    expect(answer).toBe('ok')
  })

  it('has the restrictions of its spec', async () => {
    await createPod(space, 'confined')
    await waitUntilPodReady(space, 'confined')

    const { output } = await execInPod(space, 'confined', [
      'sh',
      '-c',
      'id -u; grep -E "^(CapEff|NoNewPrivs|Seccomp):" /proc/self/status',
    ])

    expect(output.split(/\s+/)).toEqual([
      '1000',
      'CapEff:',
      '0000000000000000',
      'NoNewPrivs:',
      '1',
      'Seccomp:',
      '2',
    ])
  })
})
