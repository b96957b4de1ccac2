import { randomUUID } from 'node:crypto'
import { expect, it } from 'vitest'
import { CLAIM } from '../../../contracts/claim.ts'
import { followChain } from '../../../runtime/sandboxes/kubernetes/identity/identity-chain.ts'
import { aChain, CLAIM_NAME, owner, POD_IP, SANDBOX_NAME, type Tampering, tamper } from './chain-objects.ts'

const CLAIMS_API = `${CLAIM.group}/${CLAIM.version}`
const CORE_API = `agents.x-k8s.io/${CLAIM.version}`
const other = randomUUID()
const owners = (...ownerReferences: unknown[]) => ({ metadata: { ownerReferences } })
const first = (object: { metadata: { ownerReferences: readonly { uid: string }[] } }) =>
  object.metadata.ownerReferences[0]

it('pins claim, Sandbox and pod of a chain that holds', () => {
  const chain = aChain()

  const pinned = followChain(chain.expected, tamper(chain, {}))

  expect(pinned).toMatchObject({
    claimUid: chain.claim.metadata.uid,
    sandboxUid: chain.sandbox.metadata.uid,
    podUid: chain.pod.metadata.uid,
    podIp: POD_IP,
  })
})

const ATTACKS: readonly (readonly [string, RegExp, Tampering])[] = [
  ['a new claim with the same name', /replaced/, { claim: () => ({ metadata: { uid: other } }) }],
  ['a claim of another name', /another one/, { claim: () => ({ metadata: { name: 'agent-9999' } }) }],
  [
    'a claim of another namespace',
    /another one/,
    { claim: () => ({ metadata: { namespace: 'elsewhere' } }) },
  ],
  [
    'a claim that is being deleted',
    /being deleted/,
    {
      claim: () => ({ metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } }),
    },
  ],
  [
    'a claim that is not bound',
    /not bound/,
    {
      claim: () => ({
        status: { conditions: [{ type: 'Ready', status: 'False', reason: 'SandboxNotReady' }] },
      }),
    },
  ],
  [
    'a claim that was given env',
    /requests more than the service/,
    { claim: () => ({ spec: { env: [{ name: 'A', value: '1' }] } }) },
  ],
  [
    'a claim that names another Sandbox',
    /names another/,
    { claim: () => ({ status: { sandbox: { name: 'pool-zzzzz' } } }) },
  ],
  [
    'a Sandbox of another namespace',
    /another namespace/,
    { sandbox: () => ({ metadata: { namespace: 'elsewhere' } }) },
  ],
  [
    'a Sandbox that is being deleted',
    /being deleted/,
    {
      sandbox: () => ({ metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } }),
    },
  ],
  [
    'a Sandbox without an owner',
    /only to this claim/,
    { sandbox: () => ({ metadata: { ownerReferences: null } }) },
  ],
  [
    'a Sandbox of a claim of our name with another UID',
    /only to this claim/,
    {
      sandbox: () => owners(owner(CLAIMS_API, CLAIM.kind, { name: CLAIM_NAME, uid: other })),
    },
  ],
  [
    'a Sandbox of our claim’s UID under another name',
    /only to this claim/,
    {
      sandbox: (it) => owners({ ...first(it), name: 'agent-9999' }),
    },
  ],
  [
    'a Sandbox whose owner is of another kind',
    /only to this claim/,
    { sandbox: (it) => owners({ ...first(it), kind: 'SandboxWarmPool' }) },
  ],
  [
    'a Sandbox whose owner is of another group',
    /only to this claim/,
    {
      sandbox: (it) => owners({ ...first(it), apiVersion: `evil.example/${CLAIM.version}` }),
    },
  ],
  [
    'a Sandbox that our claim owns but does not control',
    /only to this claim/,
    {
      sandbox: (it) => owners({ ...first(it), controller: false }),
    },
  ],
  [
    'a Sandbox with a second controlling owner',
    /only to this claim/,
    {
      sandbox: (it) => owners(first(it), owner(CLAIMS_API, CLAIM.kind, { name: 'agent-evil', uid: other })),
    },
  ],
  [
    'a Sandbox whose annotation names another pod',
    /not the one of the sandbox/,
    {
      sandbox: () => ({ metadata: { annotations: { 'agents.x-k8s.io/pod-name': 'victim' } } }),
    },
  ],
  [
    'a pod of another name',
    /not the one of the sandbox/,
    { pod: () => ({ metadata: { name: 'pool-zzzzz' } }) },
  ],
  [
    'a pod of another namespace',
    /not the one of the sandbox/,
    { pod: () => ({ metadata: { namespace: 'elsewhere' } }) },
  ],
  ['a pod without an owner', /only to the sandbox/, { pod: () => ({ metadata: { ownerReferences: null } }) }],
  [
    'a pod that was owned by a Sandbox of the same name before',
    /only to the sandbox/,
    {
      pod: () => owners(owner(CORE_API, 'Sandbox', { name: SANDBOX_NAME, uid: other })),
    },
  ],
  [
    'a pod whose owner is of another group',
    /only to the sandbox/,
    { pod: (it) => owners({ ...first(it), apiVersion: 'apps/v1' }) },
  ],
  [
    'a pod with a second controlling owner',
    /only to the sandbox/,
    {
      pod: (it) => owners(first(it), owner('apps/v1', 'ReplicaSet', { name: 'evil', uid: other })),
    },
  ],
  [
    'a pod that is being deleted',
    /being deleted/,
    {
      pod: () => ({ metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } }),
    },
  ],
  ['a pod that has failed', /does not run/, { pod: () => ({ status: { phase: 'Failed' } }) }],
  ['a pod that has not begun', /does not run/, { pod: () => ({ status: { phase: 'Pending' } }) }],
  [
    'a pod under a weaker runtime',
    /not under gvisor/,
    { pod: () => ({ spec: { runtimeClassName: 'runc' } }) },
  ],
  ['a pod under no runtime class', /not under gvisor/, { pod: () => ({ spec: { runtimeClassName: null } }) }],
  [
    'a pod with another service account',
    /service account/,
    { pod: () => ({ spec: { serviceAccountName: 'default' } }) },
  ],
  [
    'a pod in the network of its node',
    /network of its node/,
    { pod: () => ({ spec: { hostNetwork: true } }) },
  ],
  [
    'a claim with another address',
    /addresses/,
    { claim: () => ({ status: { sandbox: { podIPs: ['10.0.0.66'] } } }) },
  ],
  ['a claim without an address', /addresses/, { claim: () => ({ status: { sandbox: { podIPs: null } } }) }],
  [
    'a pod with another address',
    /addresses/,
    {
      pod: () => ({ status: { podIP: '10.0.0.66', podIPs: [{ ip: '10.0.0.66' }] } }),
    },
  ],
  [
    'a pod whose two accounts of its address differ',
    /addresses/,
    { pod: () => ({ status: { podIPs: [{ ip: '10.0.0.66' }] } }) },
  ],
  ['a pod without an address', /addresses/, { pod: () => ({ status: { podIP: null, podIPs: null } }) }],
]

it.each(ATTACKS)('refuses %s', (_what, words, tampering) => {
  const chain = aChain()

  const follow = () => followChain(chain.expected, tamper(chain, tampering))

  expect(follow).toThrow(words)
  expect(follow).toThrow(expect.objectContaining({ code: 'identity_mismatch' }))
})

it('takes a pod of two addresses by the one that is its own', () => {
  const chain = aChain()
  const podIPs = ['fd00::7', POD_IP]

  const links = tamper(chain, {
    claim: () => ({ status: { sandbox: { podIPs } } }),
    pod: () => ({ status: { podIPs: [{ ip: POD_IP }, { ip: 'fd00::7' }] } }),
  })

  expect(followChain(chain.expected, links).podIp).toBe(POD_IP)
})

it('accepts a pod without a runtime class only if the environment asks for none', () => {
  const chain = aChain()
  const links = tamper(chain, { pod: () => ({ spec: { runtimeClassName: null } }) })

  expect(() => followChain({ ...chain.expected, runtimeClass: undefined }, links)).not.toThrow()
  expect(() => followChain({ ...chain.expected, runtimeClass: undefined }, tamper(chain, {}))).toThrow(
    /runs under/,
  )
})
