import { randomUUID } from 'node:crypto'
import { CLAIM } from '../../../contracts/claim.ts'
import type { FakeKubeApi } from '../kube-api.ts'
import type { Change, Draft, Stored } from './object-store.ts'

const CLAIMS_API = `${CLAIM.group}/${CLAIM.version}`
const CORE_API = `agents.x-k8s.io/${CLAIM.version}`
const ISSUER = 'https://kubernetes.default.svc.cluster.local'
/** An unused public key: the service only reads it at its start. */
const KEYS = {
  keys: [{ kty: 'OKP', crv: 'Ed25519', kid: 'k', x: 'MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrb' }],
}

export type ControllerOptions = {
  readonly namespace: string
  readonly serviceAccount: string
  readonly podIp?: string
}

type Owner = { readonly apiVersion: string; readonly kind: string; readonly object: Stored }

/**
 * Simulates the agent-sandbox controller, the kubelet and the garbage collector for claims, in the order observed on a
 * real cluster: the Sandbox is adopted, then the claim's status is updated; a foreground deletion ends with the claim.
 * It runs automatically until it is stopped; after that the test triggers each step.
 */
export function startSandboxController(fake: FakeKubeApi, options: ControllerOptions) {
  const { namespace, serviceAccount, podIp = '127.0.0.1' } = options
  const at = (apiVersion: string, plural: string) =>
    `${apiVersion.includes('/') ? '/apis' : '/api'}/${apiVersion}/namespaces/${namespace}/${plural}`
  const paths = {
    claims: at(CLAIMS_API, CLAIM.plural),
    sandboxes: at(CORE_API, 'sandboxes'),
    pods: at('v1', 'pods'),
  }
  let isRunning = true
  fake.documents.set('/.well-known/openid-configuration', { issuer: ISSUER })
  fake.documents.set('/openid/v1/jwks', KEYS)

  const ownedBy = ({ apiVersion, kind, object }: Owner) => ({
    ownerReferences: [
      { apiVersion, kind, name: object.metadata.name, uid: object.metadata.uid, controller: true },
    ],
  })
  const ready = [{ type: 'Ready', status: 'True', reason: 'DependenciesReady' }]

  function adopt(claim: Stored): Stored {
    const name = `pool-${claim.metadata.uid.slice(0, 5)}`
    const annotations = { ...(claim.metadata['annotations'] as object), 'agents.x-k8s.io/sandbox-name': name }
    fake.store.put(paths.claims, { ...claim, metadata: { ...claim.metadata, annotations } })
    const metadata = { name, namespace, labels: { 'agents.x-k8s.io/launch-type': 'warm' }, uid: randomUUID() }
    const sandbox = fake.store.put(paths.sandboxes, {
      metadata: { ...metadata, ...ownedBy({ apiVersion: CLAIMS_API, kind: CLAIM.kind, object: claim }) },
      status: { conditions: ready, podIPs: [podIp] },
    })
    fake.store.put(paths.pods, {
      metadata: { name, namespace, ...ownedBy({ apiVersion: CORE_API, kind: 'Sandbox', object: sandbox }) },
      spec: { serviceAccountName: serviceAccount },
      status: { phase: 'Running', podIP: podIp, podIPs: [{ ip: podIp }] },
    })
    return sandbox
  }

  const say = (name: string, status: object): void => {
    const claim = fake.store.get(paths.claims, name)
    if (claim) fake.store.put(paths.claims, { ...claim, status } as Draft)
  }
  const announce = (name: string, sandbox: Stored): void =>
    say(name, { conditions: ready, sandbox: { name: sandbox.metadata.name, podIPs: [podIp] } })

  function bind(name: string): void {
    const claim = fake.store.get(paths.claims, name)
    if (claim) announce(name, adopt(claim))
  }

  function collect(claim: Stored): void {
    const owned = fake.store
      .list(paths.sandboxes)
      .filter((sandbox) => JSON.stringify(sandbox.metadata['ownerReferences']).includes(claim.metadata.uid))
    for (const { metadata } of owned) {
      fake.store.remove(paths.pods, metadata.name)
      fake.store.remove(paths.sandboxes, metadata.name)
    }
    fake.store.remove(paths.claims, claim.metadata.name)
  }

  const isChosen = ({ metadata, ...object }: Stored) =>
    object['status'] !== undefined || JSON.stringify(metadata['annotations']).includes('sandbox-name')

  function work({ collection, type, object }: Change): void {
    if (!isRunning || collection !== paths.claims || type === 'DELETED') return
    if (object.metadata['deletionTimestamp'] !== undefined) setImmediate(() => collect(object))
    else if (!isChosen(object)) setImmediate(() => bind(object.metadata.name))
  }
  fake.store.onChange(work)

  return {
    paths,
    bind,
    adopt,
    announce,
    /** Ready=False with this reason. */
    refuse: (name: string, reason: string, message = ''): void =>
      say(name, { conditions: [{ type: 'Ready', status: 'False', reason, message }] }),
    stop(): void {
      isRunning = false
    },
    /** Comes back and catches up, as a controller does. */
    start(): void {
      isRunning = true
      for (const object of fake.store.list(paths.claims))
        work({ collection: paths.claims, type: 'MODIFIED', version: 0, object })
    },
    claims: (): Stored[] => fake.store.list(paths.claims),
    /** Names of all remaining objects of claims. */
    left: (): string[] =>
      Object.values(paths).flatMap((path) => fake.store.list(path).map(({ metadata }) => metadata.name)),
  }
}
