import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { whyNoNodes } from '../../../devcluster/host/privileges.ts'
import { waitUntil } from '../../../devcluster/host/wait-until.ts'
import { runCommand } from './command.ts'

describe.skipIf(whyNoNodes() !== undefined)('the commands about a running cluster', () => {
  let slot = ''
  const about = (command: string, ...rest: string[]) => runCommand([command, '--cluster', slot, ...rest])

  beforeAll(async () => {
    const { output } = await runCommand(['up', '--nodes', '2', '--keep', '--json'])
    slot = String((JSON.parse(output.slice(output.indexOf('{'))) as { slot: number }).slot)
  })
  afterAll(async () => {
    await about('down')
  })

  it('status lists every program with its memory and health', async () => {
    const status = await waitUntil({ what: 'every program to be healthy', timeoutMs: 90_000 }, async () => {
      const { output } = await runCommand(['status', '--json'])
      const all = JSON.parse(output) as Status[]
      const found = all.find(({ cluster }) => String(cluster) === slot)!
      // On a busy machine a health check can time out once.
      return found.processes.every(({ health }) => ['healthy', 'running'].includes(health))
        ? found
        : undefined
    })
    const names = status.processes.map(({ name }) => name)
    expect(status.ready).toBe(true)
    expect(names).toEqual(
      expect.arrayContaining([
        'etcd',
        'kube-apiserver',
        'node0-kubelet',
        'node1-kubelet',
        'agent-sandbox-controller',
      ]),
    )
    expect(status.processes.find(({ name }) => name === 'kube-apiserver')!.residentMiB).toBeGreaterThan(50)
    expect(status.totalMiB).toBeLessThan(2048)
  })

  it('exec gives a command the cluster’s kubectl and kubeconfig, and returns its exit code', async () => {
    const nodes = await about('exec', 'kubectl', 'get', 'nodes', '--no-headers')
    const failed = await about('exec', 'sh', '-c', 'exit 7')

    expect(nodes.output.split('\n').map((line) => line.split(/\s+/).slice(0, 2))).toEqual([
      ['node0', 'Ready'],
      ['node1', 'Ready'],
    ])
    expect(failed.code).toBe(7)
  })

  it('exec runs a command in a node', async () => {
    const { output } = await about('exec', '--in-node', 'node1', 'ip', '-br', 'addr', 'show', 'node0')

    expect(output).toMatch(/UP +10\.\d+\.0\.11\/24/)
  })

  it('logs lists all logs and shows the end of one', async () => {
    const names = await about('logs')
    const kubelet = await about('logs', '--lines', '3', 'node0-kubelet')

    expect(names.output.split('\n')).toEqual(
      expect.arrayContaining(['etcd', 'kube-apiserver', 'node0-kubelet']),
    )
    expect(kubelet.output.split('\n')).toHaveLength(3)
  })

  it('connects pods of two nodes', async () => {
    await about('exec', 'sh', '-c', `cat <<'END' | kubectl apply -f -\n${podsOnBothNodes()}\nEND`)
    await about('exec', 'kubectl', 'wait', '--for=condition=Ready', 'pod/on-0', 'pod/on-1', '--timeout=60s')
    const { output: address } = await about(
      'exec',
      'kubectl',
      'get',
      'pod',
      'on-1',
      '-o',
      'jsonpath={.status.podIP}',
    )

    const script = `fetch('http://${address}:8080/healthz').then((r) => r.text()).then((t) => console.log(t.trim()))`
    const { output } = await about('exec', 'kubectl', 'exec', 'on-0', '--', 'node', '-e', script)

    expect(output).toBe('ok')
  })

  it("hides a pod's changes to its image from other nodes that share the image", async () => {
    const look = (pod: string) =>
      about('exec', 'kubectl', 'exec', pod, '--', 'sh', '-c', 'cat /etc/group; ls /etc/nsswitch.conf 2>&1')
    const before = await look('on-1')
    const change = 'echo changed:x:7: >> /etc/group && rm /etc/nsswitch.conf'
    await about('exec', 'kubectl', 'exec', 'on-0', '--', 'sh', '-c', change)

    const [changed, other] = [await look('on-0'), await look('on-1')]

    expect(changed.output).toMatch(/changed:x:7:[\s\S]*No such file/)
    expect(before.output).toMatch(/agent:x:1000:\n\/etc\/nsswitch.conf$/)
    expect(other.output).toBe(before.output)
  })
})

interface Status {
  readonly cluster: number
  readonly ready: boolean
  readonly totalMiB: number
  readonly processes: readonly Program[]
}

interface Program {
  readonly name: string
  readonly residentMiB: number
  readonly health: string
}

function podsOnBothNodes(): string {
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'List',
    items: [0, 1].map((index) => ({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: `on-${index}` },
      spec: {
        nodeName: `node${index}`,
        terminationGracePeriodSeconds: 1,
        containers: [
          {
            name: 'main',
            // The first may write anywhere in its file system.
            securityContext: { runAsUser: index === 0 ? 0 : 1000 },
            image: 'localhost/toolbox:1',
            imagePullPolicy: 'Never',
            readinessProbe: { httpGet: { path: '/healthz', port: 8080 }, periodSeconds: 1 },
          },
        ],
      },
    })),
  })
}
