import { expect, it } from 'vitest'
import { type KubeObject, pathOf } from '../../devcluster/client/kube-object.ts'
import { waitUntil } from '../../devcluster/host/wait-until.ts'
import { policyFaults } from '../../reachability/compile-policies.ts'
import { describeWith } from './helpers/features.ts'
import { type PolicyShape, REFUSED_SHAPES } from './packets/refused-shapes.ts'
import { useStage } from './packets/stage.ts'

const NAMESPACE = 'packets-refusals'
const OUTSIDE = '198.51.100.210'
const AGENT_MS = 10_000
const CELL = { protocol: 'TCP', host: OUTSIDE, port: 80 } as const

describeWith(['cilium', 'cluster DNS', 'audit log'], 'a policy that only the API server accepts', () => {
  const stage = useStage({
    namespaces: [{ name: NAMESPACE }],
    pods: [{ namespace: NAMESPACE, name: 'pod', labels: { app: 'a' } }],
    outside: { addresses: [OUTSIDE], ranges: ['198.51.100.0/24'] },
    records: {},
    listening: { tcp: [80] },
  })
  let count = 0

  function aPolicy(spec: PolicyShape['spec']): KubeObject {
    count += 1
    const metadata = { name: `shape-${count}`, namespace: NAMESPACE }
    return { apiVersion: 'cilium.io/v2', kind: 'CiliumNetworkPolicy', metadata, spec }
  }

  /** Result of a policy in the agent: `taken`, or the logged reason for its rejection. */
  function fateOf(policy: KubeObject): Promise<string> {
    const { name } = policy.metadata
    const wait = { what: `the agent to say something about ${name}`, timeoutMs: AGENT_MS }
    return waitUntil(wait, async () => {
      if (await stage().agent.hasTaken(policy)) return 'taken'
      const [line] = stage().agent.logLines('Unable to add', `ciliumNetworkPolicyName=${name} `)
      return line?.slice(line.indexOf('error='))
    })
  }

  it.each(REFUSED_SHAPES)('is rejected by the agent and found by the check: $title', async ({ spec }) => {
    const written = aPolicy(spec)

    const policy = await stage().client.create(written)
    const fate = await fateOf(policy)
    await stage().client.delete(pathOf(policy))

    expect(fate).toMatch(/^error=".*Invalid CiliumNetworkPolicy spec/)
    expect(policyFaults([written]).map(({ path, reason }) => `${path} ${reason}`)).not.toEqual([])
  })

  it('differs from a valid policy, which all three accept and which closes the pod', async () => {
    const written = aPolicy({ endpointSelector: {}, egress: [{ toEndpoints: [{}] }] })

    const policy = await stage().client.create(written)
    await stage().agent.waitUntilRealised({ namespaces: [NAMESPACE], present: [policy] })
    const outcomes = await stage().pod(NAMESPACE, 'pod').prober.probe([CELL])
    await stage().client.delete(pathOf(policy))
    await stage().agent.waitUntilRealised({ namespaces: [NAMESPACE], absent: [policy] })

    expect(policyFaults([written])).toEqual([])
    expect(outcomes).toEqual(['dropped'])
  })

  it('is not a policy with a label key of 63 characters', async () => {
    const written = aPolicy({ endpointSelector: { matchLabels: { ['k'.repeat(63)]: 'b' } }, egress: [{}] })

    const policy = await stage().client.create(written)
    const fate = await fateOf(policy)
    await stage().client.delete(pathOf(policy))

    expect(fate).toBe('taken')
    expect(policyFaults([written])).toEqual([])
  })

  it('leaves the pod open, although its text looks closed', async () => {
    const policy = await stage().client.create(
      aPolicy({
        endpointSelector: {},
        egress: [{ toFQDNs: [{ matchName: 'a.example.net' }], toCIDR: ['192.0.2.0/24'] }],
      }),
    )

    const fate = await fateOf(policy)
    const outcomes = await stage().pod(NAMESPACE, 'pod').prober.probe([CELL])
    await stage().client.delete(pathOf(policy))

    // The agent names the two in any order, because it reads them from a map.
    expect(fate).toMatch(/combining (?:ToFQDNs and ToCIDR|ToCIDR and ToFQDNs) /)
    expect(outcomes).toEqual(['open'])
  })

  it('disables the good rules of the same policy', async () => {
    const good = { endpointSelector: {}, egress: [{ toEndpoints: [{}] }] }
    const { spec: bad = {} } = REFUSED_SHAPES[0] ?? {}
    const { spec: _, ...rest } = aPolicy({})
    const written: KubeObject = { ...rest, specs: [good, bad] }

    const policy = await stage().client.create(written)
    const line = await waitUntil({ what: 'the refusal', timeoutMs: AGENT_MS }, () =>
      stage().agent.logLines('Unable to add', `ciliumNetworkPolicyName=${policy.metadata.name} `).at(0),
    )
    const outcomes = await stage().pod(NAMESPACE, 'pod').prober.probe([CELL])
    await stage().client.delete(pathOf(policy))

    expect(line).toMatch(/Invalid CiliumNetworkPolicy specs/)
    expect(outcomes).toEqual(['open'])
    expect(policyFaults([written])).not.toEqual([])
  })

  it('leaves the previous policy in force when a valid policy is changed into one', async () => {
    const policy = await stage().client.create(
      aPolicy({ endpointSelector: {}, egress: [{ toEndpoints: [{}] }] }),
    )
    await stage().agent.waitUntilRealised({ namespaces: [NAMESPACE], present: [policy] })

    const { spec = {} } = REFUSED_SHAPES[0] ?? {}
    await stage().client.mergePatch(pathOf(policy), { spec })
    await waitUntil({ what: 'the refusal', timeoutMs: AGENT_MS }, () =>
      stage().agent.logLines('Unable to add', `ciliumNetworkPolicyName=${policy.metadata.name} `).at(0),
    )
    const outcomes = await stage().pod(NAMESPACE, 'pod').prober.probe([CELL])
    await stage().client.delete(pathOf(policy))

    expect(outcomes).toEqual(['dropped'])
  })
})
