import { expect } from 'vitest'
import type { EndpointId } from '../../../charts-src/access-matrix/endpoints.ts'
import { AGENT_HOST_PORT, EGRESS_HEALTH_PORT, EGRESS_PROXY_PORT } from '../../../contracts/ports.ts'
import { pathOf } from '../../../devcluster/client/kube-object.ts'
import { waitUntil } from '../../../devcluster/host/wait-until.ts'
import { LABEL } from '../helpers/sandbox-objects.ts'
import { createClaimLife } from './claim-life.ts'
import { inMode, readCommittedTree } from './committed-tree.ts'
import { type Runtime, startPodProber, waitForPodAddress } from './probe-pod.ts'
import { hasArrived } from './questions.ts'
import type { Stage, StagePlan } from './stage.ts'
import { hasDoneWhatIsMeant, roundsBetween, startWatch, type Watch, type WatchedCell } from './watch.ts'

/** The committed tree, in which a sandbox reaches the proxy alone, and the same with the mode in which it reaches names. */
const LOCAL = readCommittedTree('local')
const TREES = { proxy: LOCAL, fqdn: inMode(LOCAL, 'fqdn') } as const
export type Mode = keyof typeof TREES
export const MODES = ['proxy', 'fqdn'] as const satisfies readonly Mode[]
const OPEN_NAMESPACE = 'packets-claim-open'
const STRANGER = { namespace: 'packets-claim-stranger', name: 'stranger' }
export const ADDRESSES = {
  listed: '198.51.100.10',
  internet: '198.51.100.20',
  private: '10.202.0.10',
  metadata: '169.254.170.2',
}
const LISTED = 'api.github.com'

const actor = (id: EndpointId) => {
  const found = LOCAL.cast.endpoints.find((one) => one.id === id)?.end
  if (found?.kind !== 'pod') throw new Error(`no pod ${id} in the tree`)
  const labels = LOCAL.cast.facts.pods.find(
    (pod) => pod.name === found.name && pod.namespace === found.namespace,
  )?.labels
  return { namespace: found.namespace, name: found.name, labels: labels ?? {} }
}
const SANDBOX = actor('agent')
const API = actor('api')
const PROXY = actor('proxy')
const listening = {
  tcp: [80, 443, 8080, AGENT_HOST_PORT, EGRESS_PROXY_PORT, EGRESS_HEALTH_PORT],
  udp: [443],
}

type Target = readonly [host: string, port: number]

/** One life of a sandbox, with the moments that part it. */
interface Life {
  readonly watches: readonly Watch[]
  readonly begunAt: number
  readonly boundAt: number
  readonly identityAt: number
  readonly releasedAt: number
  readonly goneAt: number
  readonly early: { readonly rounds: number; readonly arrived: readonly string[] }
}

/**
 * The time after the creation of a claim in which a policy that selects the controller's claim label does not yet
 * restrict the sandbox.
 */
interface Window {
  readonly ms: number
  /**
   * The part of the window in which the agent already has the policy: the rest of the agent's grace period on a slow
   * machine.
   */
  readonly behindPolicyMs: number
  readonly early: Life['early']
}

/** A life in each mode and on each runtime. */
export interface Lives {
  readonly proxy: Readonly<Record<Runtime, Life>>
  readonly fqdn: Readonly<Record<Runtime, Life>>
  readonly window: Window
}

const NAMESPACES = [...new Set(LOCAL.policies.map(({ metadata }) => metadata.namespace ?? ''))]

export const livesStage: StagePlan = {
  namespaces: [
    ...NAMESPACES.map((name) => LOCAL.cast.facts.namespaces.find((one) => one.name === name) ?? { name }),
    { name: STRANGER.namespace },
    { name: OPEN_NAMESPACE },
  ],
  pods: [
    { ...API, listening },
    { ...PROXY, listening },
    { ...STRANGER, listening },
    { ...SANDBOX, name: 'neighbour', listening },
  ],
  outside: {
    addresses: Object.values(ADDRESSES),
    ranges: ['198.51.100.0/24', '10.202.0.0/24', '169.254.170.2/32'],
  },
  records: { [LISTED]: ADDRESSES.listed, 'unlisted.example.net': ADDRESSES.internet },
  listening,
}

/** Runs a sandbox of each runtime through a claim from its pool to its end, in each mode, one mode after the other. */
export async function liveThroughClaims(stage: Stage): Promise<Lives> {
  const [proxy, window] = await Promise.all([liveInMode(stage, 'proxy'), measureWindow(stage)])
  return { proxy, fqdn: await liveInMode(stage, 'fqdn'), window }
}

async function liveInMode(stage: Stage, mode: Mode): Promise<Record<Runtime, Life>> {
  const { policies } = TREES[mode]
  const inForce = await Promise.all(policies.map((policy) => stage.client.create(policy)))
  try {
    await stage.agent.waitUntilRealised({ namespaces: NAMESPACES, present: inForce })
    const [gvisor, runc] = await Promise.all([
      liveThrough(stage, 'gvisor', mode),
      liveThrough(stage, 'runc', mode),
    ])
    return { gvisor, runc }
  } finally {
    await Promise.all(inForce.map((policy) => stage.client.delete(pathOf(policy))))
    // The agent takes a policy that is deleted and created again at once for the old one.
    await stage.agent.waitUntilRealised({ namespaces: NAMESPACES, absent: inForce })
  }
}

const cell = (title: string, [host, port]: Target, more: Partial<WatchedCell> = {}): WatchedCell => ({
  title,
  host,
  port,
  protocol: 'TCP',
  isMeant: false,
  ...more,
})

function leavingCells(stage: Stage, mode: Mode): WatchedCell[] {
  const { node, apiServer, pod } = stage
  const proxy = pod(PROXY.namespace, PROXY.name).ip
  return [
    cell('a listed name', [LISTED, 443], { isMeant: mode === 'fqdn' }),
    ...(mode === 'proxy' ? [cell('a listed address', [ADDRESSES.listed, 443])] : []),
    cell('the proxy', [proxy, EGRESS_PROXY_PORT], { isMeant: mode === 'proxy' }),
    cell('the proxy, other port', [proxy, EGRESS_HEALTH_PORT]),
    cell('a listed name, other port', [LISTED, 80]),
    cell('an unlisted name', ['unlisted.example.net', 443]),
    cell('the internet', [ADDRESSES.internet, 443]),
    cell('the internet', [ADDRESSES.internet, 443], { protocol: 'UDP' }),
    cell('a private address', [ADDRESSES.private, 80]),
    cell('the metadata service', [ADDRESSES.metadata, 80]),
    cell('the node', [node.ip, 80]),
    cell('the API server', [apiServer.ip, 6443]),
    cell('the API', [pod(API.namespace, API.name).ip, 8080]),
    cell('a stranger', [pod(STRANGER.namespace, STRANGER.name).ip, 8080]),
    cell('a neighbour', [pod(SANDBOX.namespace, 'neighbour').ip, AGENT_HOST_PORT]),
  ]
}

/** Starts attempts to connect to the sandbox from every possible source. */
function startEntering(stage: Stage, ip: string): Watch[] {
  const { outside, pod } = stage
  const closed = [cell('into the sandbox', [ip, AGENT_HOST_PORT]), cell('into the sandbox', [ip, 8080])]
  return [
    startWatch(pod(API.namespace, API.name).prober, [
      cell('the API, orders', [ip, AGENT_HOST_PORT], { isMeant: true }),
      cell('the API, a preview port', [ip, 8080]),
    ]),
    startWatch(pod(STRANGER.namespace, STRANGER.name).prober, closed),
    startWatch(pod(SANDBOX.namespace, 'neighbour').prober, closed),
    startWatch(outside.prober, closed),
  ]
}

function lifeOf(stage: Stage, runtime: Runtime, place: Omit<typeof SANDBOX, 'name'> & { pool: string }) {
  const early = [cell('', [ADDRESSES.internet, 443]), cell('', [ADDRESSES.metadata, 80])]
  const { namespace, labels, pool } = place
  const plan = { namespace, pool, labels, runtime, resolver: stage.dns.address }
  return createClaimLife(stage.client, { ...plan, listening: { ...listening, early } })
}

/** Reads the program's log of its first seconds in the pod. */
async function readEarly(stage: Stage, namespace: string, name: string): Promise<Life['early']> {
  const url = `/api/v1/namespaces/${namespace}/pods/${name}/log`
  return waitUntil({ what: `the first words of ${name}`, timeoutMs: 30_000, everyMs: 200 }, async () =>
    JSON.parse(await stage.client.raw({ method: 'GET', url })),
  )
}

/**
 * Waits until every watch has finished three rounds since `since` in which the allowed connections succeeded. If a
 * response takes longer than a round, more rounds are needed.
 */
async function lookAround(watches: readonly Watch[], since: number): Promise<void> {
  await waitUntil({ what: 'three rounds of all watches with what a sandbox may do', timeoutMs: 30_000 }, () =>
    watches.every((watch) => {
      const rounds = roundsBetween(watch, since, Number.POSITIVE_INFINITY)
      return rounds.length >= 3 && hasDoneWhatIsMeant(watch, rounds)
    }),
  )
}

async function liveThrough(stage: Stage, runtime: Runtime, mode: Mode): Promise<Life> {
  const life = lifeOf(stage, runtime, { ...SANDBOX, pool: `pool-${mode}-${runtime}` })
  const [name = ''] = await life.fill(1)
  const ip = await waitForPodAddress(stage.client, SANDBOX.namespace, name)
  const prober = await startPodProber(SANDBOX.namespace, name)
  const early = await readEarly(stage, SANDBOX.namespace, name)
  const begunAt = Date.now()
  const watches = [startWatch(prober, leavingCells(stage, mode)), ...startEntering(stage, ip)]
  await lookAround(watches, begunAt)
  expect(await life.claim()).toBe(name)
  const boundAt = Date.now()
  await life.waitForIdentity(name)
  const identityAt = Date.now()
  await lookAround(watches, identityAt)
  const releasedAt = Date.now()
  await life.release(name)
  const goneAt = Date.now()
  await Promise.all(watches.map((watch) => watch.stop()))
  await prober.stop()
  await life.drain()
  return { watches, begunAt, boundAt, identityAt, releasedAt, goneAt, early }
}

async function measureWindow(stage: Stage): Promise<Window> {
  const life = lifeOf(stage, 'runc', { namespace: OPEN_NAMESPACE, labels: {}, pool: 'pool-open' })
  const [name = ''] = await life.fill(1)
  const early = await readEarly(stage, OPEN_NAMESPACE, name)
  const prober = await startPodProber(OPEN_NAMESPACE, name)
  const watch = startWatch(prober, [cell('the internet', [ADDRESSES.internet, 443])])
  expect(await life.claim()).toBe(name)
  const boundAt = Date.now()
  const policy = await stage.client.create({
    apiVersion: 'cilium.io/v2',
    kind: 'CiliumNetworkPolicy',
    metadata: { name: 'per-claim', namespace: OPEN_NAMESPACE },
    spec: {
      endpointSelector: { matchLabels: { [LABEL.claimUid]: await life.claimUid(name) } },
      egress: [{ toEndpoints: [{}] }],
    },
  })
  await waitUntil({ what: 'the agent to take the policy', timeoutMs: 20_000 }, () =>
    stage.agent.hasTaken(policy),
  )
  const takenAt = Date.now()
  await waitUntil({ what: 'the policy to be in force', timeoutMs: 120_000 }, () =>
    watch.latest()?.outcomes.every((outcome) => !hasArrived(outcome)),
  )
  await watch.stop()
  await prober.stop()
  await life.release(name)
  await life.drain()
  const lastOpen = watch.rounds.findLast(({ outcomes }) => outcomes.some(hasArrived))?.begunAt ?? boundAt
  return { ms: lastOpen - boundAt, behindPolicyMs: lastOpen - takenAt, early }
}
