import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import type { KubeObject } from '../../devcluster/client/kube-object.ts'
import { waitUntil } from '../../devcluster/host/wait-until.ts'
import { describeWith, hasFeature } from './helpers/features.ts'
import { type TestNamespace, useNamespace } from './helpers/namespace.ts'
import { OUTSIDE, startOutside } from './helpers/outside.ts'
import { createPod, execInPod, realPodSpec, waitUntilPodReady } from './helpers/pods.ts'

const SETTLE_MS = 30_000
/** Measured from the time when the program has loaded; loading alone takes longer than a second in some sandboxes. */
const ANSWER_MS = 4_000

/** Tries to connect to `host[:port]`. Returns one word: the response, or the reason for the failure. */
async function attempt(space: TestNamespace, pod: string, target: string): Promise<string> {
  const script = `
    const { get } = require('node:http')
    const end = (...words) => { console.log(...words); process.exit() }
    get('http://${target}/', { signal: AbortSignal.timeout(${ANSWER_MS}) })
      .on('response', (answer) => end('reached', answer.statusCode))
      .on('error', (error) => end(error.cause?.name ?? error.code))`
  return (await execInPod(space, pod, ['node', '-e', script])).output
}

const DNS_RULE = {
  toEndpoints: [
    { matchLabels: { 'k8s:io.kubernetes.pod.namespace': 'kube-system', 'k8s:k8s-app': 'kube-dns' } },
  ],
  toPorts: [
    {
      ports: [{ port: '53', protocol: 'ANY' }],
      rules: { dns: [{ matchName: 'allowed.example.com' }, { matchPattern: '*.wild.example.com' }] },
    },
  ],
}
const toNames = (...names: string[]) => ({
  toFQDNs: names.map((name) => (name.includes('*') ? { matchPattern: name } : { matchName: name })),
  toPorts: [{ ports: [{ port: '80', protocol: 'TCP' }] }],
})

/** Policies must hold on every runtime. */
const runtimes = ['runc', 'gvisor'] as const

describeWith(['cilium', 'cluster DNS', 'audit log'], 'network policies on real packets', () => {
  const space = useNamespace('network')
  let outside: { stop(): Promise<void> }

  beforeAll(async () => {
    outside = await startOutside(inject('cluster').folder)
    await createPod(space, 'server', { labels: { app: 'server' } })
    for (const runtime of runtimes.filter(isThere)) {
      const spec = realPodSpec(runtime === 'gvisor' ? { runtimeClassName: 'gvisor' } : {})
      await createPod(space, runtime, {
        labels: { app: runtime },
        spec: { ...spec, dnsConfig: { options: [{ name: 'ndots', value: '1' }] } },
      })
    }
    await Promise.all(['server', ...runtimes.filter(isThere)].map((name) => waitUntilPodReady(space, name)))
  })
  afterAll(() => outside.stop())

  function isThere(runtime: (typeof runtimes)[number]): boolean {
    return runtime === 'runc' || hasFeature('gvisor')
  }

  async function withPolicy(policy: KubeObject, work: () => Promise<void>): Promise<void> {
    const plural = policy.kind === 'NetworkPolicy' ? 'networkpolicies' : 'ciliumnetworkpolicies'
    const { apiVersion, metadata } = policy
    await space.client.create(policy)
    try {
      await work()
    } finally {
      await space.client.delete({ apiVersion, plural, namespace: space.name, name: metadata.name })
    }
  }

  function aPolicy(
    kind: 'NetworkPolicy' | 'CiliumNetworkPolicy',
    name: string,
    spec: Readonly<Record<string, unknown>>,
  ): KubeObject {
    const apiVersion = kind === 'NetworkPolicy' ? 'networking.k8s.io/v1' : 'cilium.io/v2'
    return { apiVersion, kind, metadata: { name, namespace: space.name }, spec }
  }

  function eventually(pod: string, host: string, word: RegExp): Promise<string> {
    return waitUntil(
      { what: `${pod} → ${host} to be ${word}`, timeoutMs: SETTLE_MS, everyMs: 100 },
      async () => {
        const seen = await attempt(space, pod, host)
        if (word.test(seen)) return seen
        throw new Error(`saw ${seen}`)
      },
    )
  }

  /** Runs all attempts in parallel, because each denied one waits for its timeout. */
  async function allOf(pod: string, targets: readonly string[], word: RegExp): Promise<void> {
    const ask = async (target: string) => ({ target, said: await attempt(space, pod, target) })
    const seen = await Promise.all(targets.map(ask))
    expect(seen.filter(({ said }) => !word.test(said))).toEqual([])
  }

  const DENIED = /^(TimeoutError|EHOSTUNREACH|ECONNREFUSED|EAI_AGAIN|ENOTFOUND)$/
  const REACHED = /^reached 200$/

  it.each(runtimes.filter(isThere))(
    'denies all egress of a %s pod, and opens it again when the policy is deleted',
    async (pod) => {
      await allOf(pod, [OUTSIDE.allowed, OUTSIDE.metadata], REACHED)
      const deny = aPolicy('NetworkPolicy', `deny-${pod}`, {
        podSelector: { matchLabels: { app: pod } },
        policyTypes: ['Egress'],
      })

      await withPolicy(deny, async () => {
        await eventually(pod, OUTSIDE.allowed, DENIED)
        expect(await attempt(space, pod, OUTSIDE.metadata)).toMatch(DENIED)
      })

      await eventually(pod, OUTSIDE.allowed, REACHED)
    },
  )

  it.each(runtimes.filter(isThere))('lets a %s pod reach only names on its list', async (pod) => {
    const egress = [DNS_RULE, toNames('allowed.example.com', '*.wild.example.com')]
    const names = aPolicy('CiliumNetworkPolicy', `names-${pod}`, {
      endpointSelector: { matchLabels: { app: pod } },
      egress,
    })
    const off = ['other.example.com', 'metadata.example.com', OUTSIDE.metadata, 'allowed.example.com:8080']
    await allOf(pod, off, REACHED)

    await withPolicy(names, async () => {
      await eventually(pod, OUTSIDE.other, DENIED)
      await eventually(pod, 'allowed.example.com', REACHED)
      expect(await attempt(space, pod, 'api.wild.example.com')).toMatch(REACHED)
      await allOf(pod, off, DENIED)
    })
  })

  it('deny other pods and allow the kubelet’s probes', async () => {
    const closed = aPolicy('NetworkPolicy', 'closed', {
      podSelector: { matchLabels: { app: 'server' } },
      policyTypes: ['Ingress'],
    })
    const address = (await waitUntilPodReady(space, 'server'))['status'].podIP as string
    expect(await attempt(space, 'runc', `${address}:8080`)).toMatch(/^reached/)

    await withPolicy(closed, async () => {
      await waitUntil({ what: 'the policy to apply', timeoutMs: SETTLE_MS }, async () =>
        DENIED.test(await attempt(space, 'runc', `${address}:8080`)),
      )
      // A pod becomes ready only when the kubelet's probe reaches it.
      await createPod(space, 'probed', { labels: { app: 'server' } })
      await waitUntilPodReady(space, 'probed')
      expect(await attempt(space, 'runc', `${address}:8080`)).toMatch(DENIED)
    })
  })
})
