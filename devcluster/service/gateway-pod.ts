import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import type { KubeClient } from '../client/kube-client.ts'
import { waitUntil } from '../host/wait-until.ts'
import { TOOLBOX_IMAGE } from '../images/toolbox.ts'
import { isReady } from './readiness.ts'

const READY_MS = 180_000
const PORT = 80
const NAME = 'relay'

/**
 * A relay that connects to the address in a `CONNECT` request. The cluster's network policies decide which addresses
 * the relay can reach.
 */
const RELAY = `
  const net = require('node:net')
  net.createServer((from) => {
    from.on('error', () => from.destroy())
    from.once('data', (head) => {
      const [, host, port] = /^CONNECT ([^ ]+):([0-9]+) /.exec(String(head)) ?? []
      const to = net.connect({ host, port: Number(port) }, () => {
        from.write('HTTP/1.1 200 OK\\r\\n\\r\\n')
        from.pipe(to).pipe(from)
      })
      to.on('error', () => from.destroy())
      from.on('close', () => to.destroy())
    })
  }).listen(${PORT}, '0.0.0.0')`

/** The labels of a pod of the Gateway, which the network policies allow to reach the API. */
export const GATEWAY_LABELS = { 'gateway.networking.k8s.io/gateway-name': 'agentweaver-api' }

/** Starts a relay pod with these labels, and returns its address. */
export async function startRelayPod(
  client: KubeClient,
  namespace: string,
  labels: Readonly<Record<string, string>>,
): Promise<string> {
  const size = { cpu: '10m', memory: '64Mi', 'ephemeral-storage': '16Mi' }
  await client.create({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: NAME, namespace, labels },
    spec: {
      terminationGracePeriodSeconds: 0,
      automountServiceAccountToken: false,
      securityContext: { runAsNonRoot: true, runAsUser: 1000, seccompProfile: { type: 'RuntimeDefault' } },
      containers: [
        {
          name: NAME,
          image: TOOLBOX_IMAGE,
          imagePullPolicy: 'Never',
          command: ['/usr/local/bin/node', '-e', RELAY],
          resources: { requests: size, limits: { ...size, cpu: '500m' } },
          securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
          readinessProbe: { tcpSocket: { port: PORT }, periodSeconds: 1 },
        },
      ],
    },
  })
  const what = `the relay pod of namespace ${namespace}`
  return waitUntil({ what, timeoutMs: READY_MS, everyMs: 250 }, async () => {
    const pod = await client.get({ apiVersion: 'v1', plural: 'pods', namespace, name: NAME })
    return isReady(pod) ? String(pod['status'].podIP) : undefined
  })
}

/** Opens a loopback port whose connections go through a relay pod to `target`, which is `HOST:PORT`. */
export async function openTunnel(relay: string, target: string): Promise<Server> {
  const server = createServer((from: Socket) => {
    const to = connect({ host: relay, port: PORT }, () => {
      to.write(`CONNECT ${target} HTTP/1.1\r\n\r\n`)
    })
    to.once('data', () => from.pipe(to).pipe(from))
    to.on('error', () => from.destroy())
    to.on('close', () => from.destroy())
    from.on('error', () => to.destroy())
    from.on('close', () => to.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return server
}
