import { writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { type AddressInfo, isIP } from 'node:net'
import { join } from 'node:path'
import { json } from 'node:stream/consumers'
import { SandboxSettings } from '../../contracts/policy.ts'
import { createEvaluator } from '../../reachability/evaluate.ts'
import type { CommittedTree } from '../cluster/packets/committed-tree.ts'
import { aRun } from './fake-service.ts'
import { aStandIn } from './stand-in.ts'

const IDS = { agent: `run_${'a'.repeat(32)}`, command: `sbx_${'c'.repeat(32)}` } as const
type Kind = keyof typeof IDS
type Target = { readonly host: string; readonly port: number }

function podOf({ endpoints }: CommittedTree['cast'], kind: Kind) {
  const end = endpoints.find(({ id }) => id === kind)?.end
  if (end?.kind !== 'pod') throw new Error(`the tree has no sandbox of class ${kind}`)
  return end
}

/** Cilium replaces the address of a Service by a pod's before it applies policies. */
function proxyOf({ endpoints }: CommittedTree['cast']) {
  const end = endpoints.find(({ id }) => id === 'proxy')?.end
  if (end?.kind !== 'pod') throw new Error('the tree has no egress proxy')
  return end
}

/** The event with the pod of a sandbox. `verify` excludes this pod from the forbidden destinations. */
function boundEvent({ cast }: CommittedTree, kind: Kind) {
  const { name } = podOf(cast, kind)
  const data = { podName: name, podUid: name, claimName: 'verify', launch: 'warm', bindMs: 1 }
  return {
    sequence: 1,
    at: new Date(0).toISOString(),
    event: { type: 'sandbox.execution_pod.bound', data },
  }
}

/** Judges the connections of a sandbox by the policies of a tree, as Cilium does. */
function reachabilityOf({ policies, cast, environment }: CommittedTree) {
  const built = createEvaluator(policies, cast.facts)
  if (!built.ok) throw new Error(JSON.stringify(built.faults))
  return (kind: Kind, { host, port }: Target): boolean => {
    const from = podOf(cast, kind)
    const isProxy = host === environment.egress.proxyAddress
    const to = isProxy
      ? proxyOf(cast)
      : isIP(host)
        ? ({ kind: 'address', ip: host } as const)
        : ({ kind: 'name', name: host } as const)
    return built.evaluator.isAllowed({ from, to, protocol: 'TCP', port })
  }
}

/** Decodes the targets of the probe: JSON in base64, in a program in base64. */
function targetsIn(command: string): Target[] {
  const decode = (text: string, quote: string) =>
    Buffer.from(
      new RegExp(`from\\(${quote}([A-Za-z0-9+/=]+)${quote}`).exec(text)?.[1] ?? '',
      'base64',
    ).toString()
  return JSON.parse(decode(decode(command, '"'), "'"))
}

const EXITED = { signal: null, timedOut: false, outputTruncated: false, stdoutBytes: 0, stderrBytes: 0 }

/**
 * A service whose sandboxes are pods under the policies of a tree, and the `kubectl` of its cluster: a connection that a
 * sandbox is asked to open is allowed or refused by the tree.
 */
export async function startRenderedCluster(tree: CommittedTree) {
  const reaches = reachabilityOf(tree)
  const made: Kind[] = []
  const outputs = new Map<string, string>()

  const command = async (request: IncomingMessage, kind: Kind) => {
    const asked = (await json(request)) as { command: string }
    const answer = targetsIn(asked.command).map((target) => reaches(kind, target))
    outputs.set(IDS[kind], `${JSON.stringify(answer)}\n`)
    return { commandId: 'cmd_1', afterSequence: 0 }
  }
  const make = (kind: Kind) => {
    made.push(kind)
    return aRun({ id: IDS[kind], kind, state: 'waiting' })
  }
  const kindOf = (path: string): Kind => (/sandboxes|sbx_/.test(path) ? 'command' : 'agent')
  const respond = (request: IncomingMessage, path: string): unknown => {
    const kind = kindOf(path)
    if (path.endsWith('policy')) return SandboxSettings.parse({ network_enabled: true })
    if (path.endsWith('/commands')) return command(request, kind)
    if (path.endsWith('/events')) return { items: [boundEvent(tree, kind)] }
    if (path.endsWith('/cancel')) return aRun({ id: IDS[kind], kind, state: 'cancelled' })
    return request.method === 'POST' ? make(kind) : aRun({ id: IDS[kind], kind, state: 'waiting' })
  }
  const stream = (response: ServerResponse, id: string) => {
    const result = { ...EXITED, exitCode: 0, reason: 'exit', durationMs: 1 }
    const events = [
      { type: 'command.output', data: { commandId: 'cmd_1', stream: 'stdout', chunk: outputs.get(id) } },
      { type: 'command.exited', data: { commandId: 'cmd_1', result } },
    ]
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    for (const [index, event] of events.entries()) {
      const envelope = { sequence: index + 1, at: new Date(0).toISOString(), event }
      response.write(`id: ${index + 1}\nevent: ${event.type}\ndata: ${JSON.stringify(envelope)}\n\n`)
    }
  }
  const server = createServer(async (request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://fake')
    if (pathname.endsWith('/stream')) return stream(response, pathname.split('/')[3] ?? '')
    const body = await respond(request, pathname)
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const kubectl = await aStandIn('kubectl', 'kubectl-stand-in.ts')
  writeFileSync(join(kubectl.state, 'answers.json'), JSON.stringify(objectsOf(tree)))
  return {
    /** Classes of the requested sandboxes. */
    made,
    env: {
      ...kubectl.env,
      AGENTWEAVER_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      AGENTWEAVER_API_KEY: 'any',
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
    },
  }
}

/** A fake `kubectl` for the cluster of the tree. */
function objectsOf({ environment, cast }: CommittedTree): Record<string, unknown> {
  const [services = ''] = environment.infra.network.serviceCidrs
  const nodeInfo = { kernelVersion: '6.6.0', kubeletVersion: 'v1.36.0' }
  const nodes = (cast.facts.nodes ?? []).map(({ name, ips }) => ({
    metadata: { name },
    spec: {},
    status: { nodeInfo, addresses: ips.map((address) => ({ type: 'InternalIP', address })) },
  }))
  const pods = cast.facts.pods
    .filter(({ namespace }) => namespace.endsWith('-sandboxes'))
    .map(({ name, ips = [] }) => ({ metadata: { name, uid: name }, spec: {}, status: { podIP: ips[0] } }))
  return {
    'get service kubernetes': { spec: { clusterIP: services.replace(/\.0\/\d+$/, '.1') } },
    'get nodes': { items: nodes },
    'get pods': { items: pods },
  }
}
