import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { AGENT_HOST_PORT } from '../../contracts/ports.ts'
import { type KubeObject, pathOf } from '../kube/client/kube-object.ts'
import { waitUntil } from '../kube/host/wait-until.ts'
import { describeWith } from './helpers/features.ts'
import { LABEL } from './helpers/sandbox-objects.ts'
import { createClaimLife } from './packets/claim-life.ts'
import { readCommittedTree } from './packets/committed-tree.ts'
import { type Runtime, startPodProber, waitForPodAddress } from './packets/probe-pod.ts'
import { hasArrived } from './packets/questions.ts'
import { useStage } from './packets/stage.ts'
import { leaksOf, roundsBetween, startWatch, type Watch, type WatchedCell } from './packets/watch.ts'

const TREE = readCommittedTree('local')
const RUNTIMES: readonly Runtime[] = ['gvisor', 'runc']
const OPEN_NAMESPACE = 'packets-claim-open'
const STRANGER = { namespace: 'packets-claim-stranger', name: 'stranger' }
const ADDRESSES = {
  listed: '198.51.100.10',
  internet: '198.51.100.20',
  private: '10.202.0.10',
  metadata: '169.254.170.2',
}
const LISTED = 'api.github.com'
const LIFE_MS = 240_000
/** The agent's grace period alone is five seconds. */
const SHORTEST_WINDOW_MS = 2_000

const actor = (id: string) => {
  const found = TREE.cast.actors.find((one) => one.id === id)?.end
  if (found?.kind !== 'pod') throw new Error(`no pod ${id} in the tree`)
  const labels = TREE.cast.facts.pods.find(
    (pod) => pod.name === found.name && pod.namespace === found.namespace,
  )?.labels
  return { namespace: found.namespace, name: found.name, labels: labels ?? {} }
}
const SANDBOX = actor('agent')
const API = actor('api')
const listening = { tcp: [80, 443, 8080, AGENT_HOST_PORT], udp: [443] }

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

describeWith(
  ['cilium', 'agent-sandbox', 'cluster DNS', 'audit log', 'gvisor'],
  'a sandbox, from its first moment to its last',
  () => {
    const namespaces = [...new Set(TREE.policies.map(({ metadata }) => metadata.namespace ?? ''))]
    const stage = useStage({
      namespaces: [
        ...namespaces.map((name) => TREE.cast.facts.namespaces.find((one) => one.name === name) ?? { name }),
        { name: STRANGER.namespace },
        { name: OPEN_NAMESPACE },
      ],
      pods: [
        { ...API, listening },
        { ...STRANGER, listening },
        { ...SANDBOX, name: 'neighbour', listening },
      ],
      outside: {
        addresses: Object.values(ADDRESSES),
        ranges: ['198.51.100.0/24', '10.202.0.0/24', '169.254.170.2/32'],
      },
      records: { [LISTED]: ADDRESSES.listed, 'unlisted.example.net': ADDRESSES.internet },
      listening,
    })
    let inForce: KubeObject[] = []
    let lives = new Map<Runtime, Life>()
    let window: { readonly ms: number; readonly early: Life['early'] }

    beforeAll(async () => {
      inForce = await Promise.all(TREE.policies.map((policy) => stage().client.create(policy)))
      await stage().agent.waitUntilRealised({ namespaces, present: inForce })
      const [gvisor, runc, open] = await Promise.all([
        liveThrough('gvisor'),
        liveThrough('runc'),
        measureWindow(),
      ])
      lives = new Map([
        ['gvisor', gvisor],
        ['runc', runc],
      ])
      window = open
    }, LIFE_MS)
    afterAll(async () => {
      await Promise.all(inForce.map((policy) => stage().client.delete(pathOf(policy))))
    })

    const cell = (title: string, [host, port]: Target, more: Partial<WatchedCell> = {}): WatchedCell => ({
      title,
      host,
      port,
      protocol: 'TCP',
      isMeant: false,
      ...more,
    })

    function leavingCells(): WatchedCell[] {
      const { node, apiServer, pod } = stage()
      return [
        cell('a listed name', [LISTED, 443], { isMeant: true }),
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

    /** From everybody who could try to get in. */
    function startEntering(ip: string): Watch[] {
      const { outside, pod } = stage()
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

    function lifeOf(runtime: Runtime, namespace: string, labels: Readonly<Record<string, string>>) {
      const early = [cell('', [ADDRESSES.internet, 443]), cell('', [ADDRESSES.metadata, 80])]
      const plan = { namespace, pool: `pool-${runtime}`, labels, runtime, resolver: stage().dns.address }
      return createClaimLife(stage().client, { ...plan, listening: { ...listening, early } })
    }

    /** What the program in the pod wrote down about its first seconds. */
    async function readEarly(namespace: string, name: string): Promise<Life['early']> {
      const url = `/api/v1/namespaces/${namespace}/pods/${name}/log`
      return waitUntil({ what: `the first words of ${name}`, timeoutMs: 30_000, everyMs: 200 }, async () =>
        JSON.parse(await stage().client.raw({ method: 'GET', url })),
      )
    }

    async function rounds(watches: readonly Watch[], count: number): Promise<void> {
      const before = watches.map((watch) => watch.rounds.length)
      await waitUntil({ what: `${count} rounds of all watches`, timeoutMs: 30_000 }, () =>
        watches.every((watch, index) => watch.rounds.length >= (before[index] ?? 0) + count),
      )
    }

    async function liveThrough(runtime: Runtime): Promise<Life> {
      const life = lifeOf(runtime, SANDBOX.namespace, SANDBOX.labels)
      const [name = ''] = await life.fill(1)
      const ip = await waitForPodAddress(stage().client, SANDBOX.namespace, name)
      const prober = await startPodProber(SANDBOX.namespace, name)
      const early = await readEarly(SANDBOX.namespace, name)
      const begunAt = Date.now()
      const watches = [startWatch(prober, leavingCells()), ...startEntering(ip)]
      await rounds(watches, 3)
      expect(await life.claim()).toBe(name)
      const boundAt = Date.now()
      await life.waitForIdentity(name)
      const identityAt = Date.now()
      await rounds(watches, 3)
      const releasedAt = Date.now()
      await life.release(name)
      const goneAt = Date.now()
      await Promise.all(watches.map((watch) => watch.stop()))
      await prober.stop()
      await life.drain()
      return { watches, begunAt, boundAt, identityAt, releasedAt, goneAt, early }
    }

    /** How long a policy that selects the controller's label of a claim is in the agent, and not in force. */
    async function measureWindow(): Promise<typeof window> {
      const life = lifeOf('runc', OPEN_NAMESPACE, {})
      const [name = ''] = await life.fill(1)
      const early = await readEarly(OPEN_NAMESPACE, name)
      const prober = await startPodProber(OPEN_NAMESPACE, name)
      await life.claim()
      const policy = await stage().client.create({
        apiVersion: 'cilium.io/v2',
        kind: 'CiliumNetworkPolicy',
        metadata: { name: 'per-claim', namespace: OPEN_NAMESPACE },
        spec: {
          endpointSelector: { matchLabels: { [LABEL.claimUid]: await life.claimUid(name) } },
          egress: [{ toEndpoints: [{}] }],
        },
      })
      await waitUntil({ what: 'the agent to take the policy', timeoutMs: 20_000 }, () =>
        stage().agent.hasTaken(policy),
      )
      const takenAt = Date.now()
      const watch = startWatch(prober, [cell('the internet', [ADDRESSES.internet, 443])])
      await waitUntil({ what: 'the policy to be in force', timeoutMs: 120_000 }, () =>
        watch.rounds.at(-1)?.outcomes.every((outcome) => !hasArrived(outcome)),
      )
      await watch.stop()
      await prober.stop()
      await life.release(name)
      await life.drain()
      const lastOpen = watch.rounds.findLast(({ outcomes }) => outcomes.some(hasArrived))
      return { ms: (lastOpen?.begunAt ?? takenAt) - takenAt, early }
    }

    const lifeWith = (runtime: Runtime): Life => {
      const life = lives.get(runtime)
      if (!life) throw new Error(`no life of a ${runtime} sandbox`)
      return life
    }

    describe.each(RUNTIMES)('on %s', (runtime) => {
      it('is never more open than its class', () => {
        const { watches } = lifeWith(runtime)

        expect(watches.flatMap(leaksOf)).toEqual([])
      })

      it('is watched before the claim, while its identity is late, after that, and while it goes', () => {
        const { watches, begunAt, boundAt, identityAt, releasedAt, goneAt } = lifeWith(runtime)
        const [leaving, ...entering] = watches

        for (const watch of watches) {
          expect(roundsBetween(watch, begunAt, boundAt).length).toBeGreaterThan(0)
          expect(roundsBetween(watch, boundAt, identityAt).length).toBeGreaterThan(3)
          expect(roundsBetween(watch, identityAt, releasedAt).length).toBeGreaterThan(0)
        }
        expect(roundsBetween(leaving!, begunAt, releasedAt).length).toBeGreaterThan(10)
        for (const watch of entering) {
          expect(roundsBetween(watch, releasedAt, goneAt).length).toBeGreaterThan(0)
        }
        expect(identityAt - boundAt).toBeGreaterThan(SHORTEST_WINDOW_MS)
      })

      it('does all the while what its class may', () => {
        const { watches, begunAt, boundAt, identityAt, releasedAt } = lifeWith(runtime)
        const phases = [
          [begunAt, boundAt],
          [boundAt, identityAt],
          [identityAt, releasedAt],
        ] as const

        for (const watch of watches.slice(0, 2)) {
          const index = watch.cells.findIndex(({ isMeant }) => isMeant)
          for (const [from, to] of phases) {
            const seen = roundsBetween(watch, from, to).map(({ outcomes }) => outcomes[index])
            expect(seen).toContain('open')
          }
        }
      })

      it('got nowhere in its first moments', () => {
        const { early } = lifeWith(runtime)

        expect(early.rounds).toBeGreaterThan(3)
        expect(early.arrived).toEqual([])
      })
    })

    it('would have a window if a policy of the claim had to close it', () => {
      expect(window.ms).toBeGreaterThan(SHORTEST_WINDOW_MS)
      expect(window.early.arrived).toEqual([ADDRESSES.internet, ADDRESSES.metadata])
    })
  },
)
