import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { beforeAll, expect, it } from 'vitest'
import type { KubeObject } from '../../devcluster/client/kube-object.ts'
import { describeWith, hasFeature } from './helpers/features.ts'
import type { Cell } from './packets/cell.ts'
import { probeArguments } from './packets/probe-command.ts'
import type { Runtime } from './packets/probe-pod.ts'
import { startProber } from './packets/prober.ts'
import { useStage } from './packets/stage.ts'

const NAMESPACE = 'packets-kit'
const ADDRESSES = { listed: '198.51.100.110', unlisted: '198.51.100.120', metadata: '169.254.171.2' }
const RUNTIMES: readonly Runtime[] = ['runc', 'gvisor']
const SILENCE_MS = 300

describeWith(['cilium', 'cluster DNS', 'audit log', 'gvisor'], 'the probes', () => {
  const stage = useStage({
    namespaces: [{ name: NAMESPACE }],
    pods: ['server', ...RUNTIMES].map((name) => ({
      namespace: NAMESPACE,
      name,
      labels: { app: name },
      runtime: name === 'gvisor' ? ('gvisor' as const) : ('runc' as const),
      listening: { tcp: [8080], udp: [8080] },
    })),
    outside: { addresses: Object.values(ADDRESSES), ranges: ['198.51.100.0/24', '169.254.171.2/32'] },
    records: { 'listed.example.net': ADDRESSES.listed, 'unlisted.example.net': ADDRESSES.unlisted },
    listening: { tcp: [80], udp: [80] },
  })
  let cells: Cell[] = []

  beforeAll(() => {
    if (!hasFeature('cilium')) return
    const { node, apiServer, pod } = stage()
    const server = pod(NAMESPACE, 'server').ip
    cells = [
      { protocol: 'TCP', host: server, port: 8080 },
      { protocol: 'UDP', host: server, port: 8080 },
      { protocol: 'TCP', host: node.ip, port: 80 },
      { protocol: 'UDP', host: node.ip, port: 80 },
      { protocol: 'TCP', host: apiServer.ip, port: 6443 },
      { protocol: 'TCP', host: ADDRESSES.metadata, port: 80 },
      { protocol: 'UDP', host: ADDRESSES.unlisted, port: 80 },
      { protocol: 'TCP', host: 'listed.example.net', port: 80 },
      { protocol: 'TCP', host: 'unlisted.example.net', port: 80 },
    ]
  })

  it.each(RUNTIMES)('reach every listener from a %s pod, and report closed ports', async (runtime) => {
    const { prober, ip } = stage().pod(NAMESPACE, runtime)

    const open = await prober.probe(cells)
    const closed = await prober.probe([
      { protocol: 'TCP', host: ip, port: 1 },
      { protocol: 'UDP', host: ADDRESSES.listed, port: 1 },
      { protocol: 'TCP', host: 'nobody.example.net', port: 80 },
    ])

    expect(open).toEqual(cells.map(() => 'open'))
    expect(closed).toEqual(['refused', 'refused', 'name unknown'])
  })

  it.each(RUNTIMES)('distinguish dropped packets and refused names in a %s pod', async (runtime) => {
    const { prober } = stage().pod(NAMESPACE, runtime)
    const policy = await stage().client.create(namesOnly(runtime))
    const wanted = { namespaces: [NAMESPACE] }
    await stage().agent.waitUntilRealised({ ...wanted, present: [policy] })

    const under = await prober.probe(cells)
    await stage().client.delete(path(policy))
    await stage().agent.waitUntilRealised({ ...wanted, absent: [policy] })
    const after = await prober.probe(cells)

    expect(under).toEqual([...Array.from({ length: 7 }, () => 'dropped'), 'open', 'name refused'])
    expect(after).toEqual(cells.map(() => 'open'))
  })

  it('count an answer that arrived while they were stopped, and no answer that never arrived', async () => {
    const listeners = [() => 'late', () => undefined].map((word) =>
      createServer((socket) => {
        socket.on('error', () => socket.destroy())
        const said = word()
        if (said) setTimeout(() => socket.end(said), SILENCE_MS / 2)
      }).listen(0, '127.0.0.1'),
    )
    await Promise.all(listeners.map((listener) => once(listener, 'listening')))
    const ports = listeners.map((listener) => (listener.address() as AddressInfo).port)
    const prober = await startProber([process.execPath, ...probeArguments()])
    const targets = ports.map((port): Cell => ({ protocol: 'TCP', host: '127.0.0.1', port }))

    const asked = prober.probe(targets, SILENCE_MS)
    await Promise.all(listeners.map((listener) => once(listener, 'connection')))
    process.kill(prober.pid, 'SIGSTOP')
    // By the time that another program gives up, the stopped one has missed the answer and its own deadline.
    const other = await startProber([process.execPath, ...probeArguments()])
    await other.probe([targets[1]!], 2 * SILENCE_MS)
    await other.stop()
    process.kill(prober.pid, 'SIGCONT')
    const outcomes = await asked
    await prober.stop()
    for (const listener of listeners) listener.close()

    expect(outcomes).toEqual(['open', 'dropped'])
  })

  it('reach pods from the node and from outside', async () => {
    const { node, outside, pod } = stage()
    const targets = RUNTIMES.map((name) => ({
      protocol: 'TCP' as const,
      host: pod(NAMESPACE, name).ip,
      port: 8080,
    }))

    const seen = await Promise.all([node, outside].map(({ prober }) => prober.probe(targets)))

    expect(seen.flat()).toEqual(Array.from({ length: 4 }, () => 'open'))
  })
})

function path({ apiVersion, metadata }: KubeObject) {
  return { apiVersion, plural: 'ciliumnetworkpolicies', namespace: NAMESPACE, name: metadata.name }
}

function namesOnly(app: string): KubeObject {
  const resolver = { 'k8s:io.kubernetes.pod.namespace': 'kube-system', 'k8s:k8s-app': 'kube-dns' }
  const names = [{ matchName: 'listed.example.net' }]
  return {
    apiVersion: 'cilium.io/v2',
    kind: 'CiliumNetworkPolicy',
    metadata: { name: `names-${app}`, namespace: NAMESPACE },
    spec: {
      endpointSelector: { matchLabels: { app } },
      egress: [
        {
          toEndpoints: [{ matchLabels: resolver }],
          toPorts: [{ ports: [{ port: '53', protocol: 'ANY' }], rules: { dns: names } }],
        },
        { toFQDNs: names, toPorts: [{ ports: [{ port: '80', protocol: 'TCP' }] }] },
      ],
    },
  }
}
