import { randomUUID } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import { CLAIM } from '../../../contracts/claim.ts'
import { IDENTITY_AUDIENCE } from '../../../contracts/configure.ts'
import { names } from '../../../contracts/names.ts'
import { messageOf } from '../../../runtime/kit/errors.ts'
import { clusterEnv } from '../../fakes/kube/fake-cluster.ts'
import type { Change, Draft, Stored } from '../../fakes/kube/object-store.ts'
import { startFakeKubeApi } from '../../fakes/kube-api.ts'
import { type Pod, type PodIdentity, startPod } from './pods.ts'

const ISSUER = 'https://kubernetes.default.svc.cluster.local'
const CLAIMS_API = `${CLAIM.group}/${CLAIM.version}`
const CORE_API = `agents.x-k8s.io/${CLAIM.version}`
const READY = [{ type: 'Ready', status: 'True', reason: 'DependenciesReady' }]

export type PodClusterOptions = {
  readonly folder: string
  readonly repository: string
  readonly program: string
  readonly jwksFile: string
  /** Pods in standby. */
  readonly warm: number
  /** Called if this program itself fails. */
  readonly onProblem: (problem: string) => void
}

let addresses = 0
/** An address of this machine that no other pod of this program has. */
function nextAddress(): string {
  addresses += 1
  return `127.${10 + (process.pid % 200)}.${Math.floor(addresses / 250) % 250}.${(addresses % 250) + 1}`
}

export type PodCluster = Awaited<ReturnType<typeof startPodCluster>>

/**
 * A fake API server of Kubernetes whose pods are real AgentHosts: a controller binds each claim to a pod of the warm pool,
 * and deletes the pod with the claim.
 */
export async function startPodCluster({ warm, folder, onProblem, ...options }: PodClusterOptions) {
  const fake = await startFakeKubeApi()
  const { namespaces, pool, serviceAccounts } = names({ kind: 'base' })
  const namespace = namespaces.sandboxes
  const at = (apiVersion: string, plural: string) =>
    `${apiVersion.includes('/') ? '/apis' : '/api'}/${apiVersion}/namespaces/${namespace}/${plural}`
  const paths = {
    claims: at(CLAIMS_API, CLAIM.plural),
    sandboxes: at(CORE_API, 'sandboxes'),
    pods: at('v1', 'pods'),
  }
  const identity = await createIdentity(namespace)
  for (const [path, document] of identity.documents) fake.documents.set(path, document)

  const standby: Promise<Pod>[] = []
  const bound = new Map<string, { readonly pod: Pod; readonly sandbox: string }>()
  const begun = new Set<string>()
  const stopping = new Set<Promise<unknown>>()
  const workspaces: string[] = []
  let count = 0
  let isClosed = false

  const addPod = () => {
    count += 1
    const place = { folder: join(folder, `p${count}`), ip: nextAddress() }
    const started = startPod({ ...options, ...place, identity: identity.token })
    started.catch(() => undefined)
    standby.push(started)
  }
  for (let index = 0; index < warm; index += 1) addPod()

  async function bind(claim: Stored): Promise<void> {
    const { name, uid } = claim.metadata
    const taken = standby.shift()
    addPod()
    const pod = await (taken ?? (standby.pop() as Promise<Pod>))
    const known = fake.store.get(paths.claims, name)
    if (!known || known.metadata.uid !== uid || known.metadata['deletionTimestamp'] !== undefined) {
      standby.push(Promise.resolve(pod))
      return
    }
    workspaces.push(join(pod.folder, 'workspace'))
    pod.assign(accountOf(known))
    const sandbox = putSandbox(known, pod)
    bound.set(uid, { pod, sandbox })
    void pod.exited.then(() => reportFailure(uid))
    const current = fake.store.get(paths.claims, name)
    if (current) {
      const status = { conditions: READY, sandbox: { name: sandbox, podIPs: [pod.ip] } }
      fake.store.put(paths.claims, { ...current, status } as Draft)
    }
  }

  const accountOf = ({ spec }: Stored): string => {
    const { warmPoolRef } = spec as { warmPoolRef: { name: string } }
    return warmPoolRef.name === pool('command') ? serviceAccounts.commandHost : serviceAccounts.agentHost
  }

  function putSandbox(claim: Stored, { name, uid, ip }: Pod): string {
    const annotations = { ...(claim.metadata['annotations'] as object), 'agents.x-k8s.io/sandbox-name': name }
    fake.store.put(paths.claims, { ...claim, metadata: { ...claim.metadata, annotations } })
    const owner = (apiVersion: string, kind: string, { metadata }: Stored) => ({
      ownerReferences: [{ apiVersion, kind, name: metadata.name, uid: metadata.uid, controller: true }],
    })
    const labels = { 'agents.x-k8s.io/launch-type': 'warm' }
    const sandbox = fake.store.put(paths.sandboxes, {
      metadata: { name, namespace, labels, uid: randomUUID(), ...owner(CLAIMS_API, CLAIM.kind, claim) },
      status: { conditions: READY, podIPs: [ip] },
    })
    fake.store.put(paths.pods, {
      metadata: { name, namespace, uid, ...owner(CORE_API, 'Sandbox', sandbox) },
      spec: { serviceAccountName: accountOf(claim) },
      status: { phase: 'Running', podIP: ip, podIPs: [{ ip }] },
    })
    return name
  }

  /** The kubelet and the controller report a pod whose AgentHost has ended. */
  function reportFailure(claimUid: string): void {
    const found = bound.get(claimUid)
    const claim = fake.store.list(paths.claims).find(({ metadata }) => metadata.uid === claimUid)
    const pod = found && fake.store.get(paths.pods, found.sandbox)
    if (!found || !claim || !pod) return
    const conditions = [{ type: 'Ready', status: 'False', reason: 'PodFailed', message: 'the pod failed' }]
    fake.store.put(paths.pods, { ...pod, status: { phase: 'Failed' } } as Draft)
    const sandbox = fake.store.get(paths.sandboxes, found.sandbox)
    if (sandbox) fake.store.put(paths.sandboxes, { ...sandbox, status: { conditions } } as Draft)
    const status = { ...(claim['status'] as object), conditions }
    fake.store.put(paths.claims, { ...claim, status } as Draft)
  }

  async function collect(claim: Stored): Promise<void> {
    const found = bound.get(claim.metadata.uid)
    if (found) {
      await found.pod.stop()
      fake.store.remove(paths.pods, found.sandbox)
      fake.store.remove(paths.sandboxes, found.sandbox)
    }
    fake.store.remove(paths.claims, claim.metadata.name)
  }

  const track = (work: Promise<unknown>) => {
    stopping.add(work)
    work
      .catch((error: unknown) => isClosed || onProblem(`the test cluster failed: ${messageOf(error)}`))
      .finally(() => stopping.delete(work))
  }
  fake.store.onChange(({ collection, type, object }: Change) => {
    if (isClosed || collection !== paths.claims || type === 'DELETED') return
    const isLeaving = object.metadata['deletionTimestamp'] !== undefined
    const key = `${isLeaving ? 'delete' : 'bind'} ${object.metadata.uid}`
    if (begun.has(key)) return
    begun.add(key)
    track(isLeaving ? collect(object) : bind(object))
  })

  return {
    fake,
    env: await clusterEnv(folder, fake.url),
    pods: (): Pod[] => [...bound.values()].map(({ pod }) => pod),
    /** Workspaces of all pods, also of deleted ones. */
    marks: (): string[] => workspaces.flatMap(marksIn),
    left: (): string[] =>
      Object.values(paths).flatMap((path) => fake.store.list(path).map(({ metadata }) => metadata.name)),
    deletePod(choice: number): boolean {
      const living = fake.store.list(paths.pods)
      const chosen = living[Math.floor(choice * living.length)]
      const found = [...bound.values()].find(({ sandbox }) => sandbox === chosen?.metadata.name)
      if (!chosen || !found) return false
      fake.store.remove(paths.pods, chosen.metadata.name)
      track(found.pod.stop())
      return true
    },
    async close(): Promise<void> {
      isClosed = true
      await Promise.allSettled([...stopping])
      const pods = [
        ...(await Promise.allSettled(standby)),
        ...[...bound.values()].map(({ pod: value }) => ({ value })),
      ]
      await Promise.allSettled(pods.map((one) => 'value' in one && one.value.stop()))
      await fake.close()
    },
  }
}

export const marksIn = (workspace: string): string[] => {
  try {
    return readdirSync(join(workspace, 'marks'))
  } catch {
    return []
  }
}

async function createIdentity(namespace: string) {
  const pair = await generateKeyPair('ES256')
  const jwk = { ...(await exportJWK(pair.publicKey)), kid: 'cluster', alg: 'ES256' }
  return {
    documents: new Map<string, unknown>([
      ['/.well-known/openid-configuration', { issuer: ISSUER }],
      ['/openid/v1/jwks', { keys: [jwk] }],
    ]),
    token: ({ account, ...pod }: PodIdentity) =>
      new SignJWT({ 'kubernetes.io': { namespace, pod, serviceaccount: { name: account } } })
        .setProtectedHeader({ alg: 'ES256', kid: 'cluster' })
        .setIssuer(ISSUER)
        .setAudience(IDENTITY_AUDIENCE)
        .setSubject(`system:serviceaccount:${namespace}:${account}`)
        .setIssuedAt()
        .setExpirationTime('10m')
        .sign(pair.privateKey),
  }
}
