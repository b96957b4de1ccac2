import { RUNTIME_CLASSES } from '../../contracts/labels.ts'
import { names } from '../../contracts/names.ts'
import { AGENT_HOST_PORT } from '../../contracts/ports.ts'
import type { Check, CheckInputs } from './check.ts'
import { Nodes, Pod, Pods, Service } from './kube-objects.ts'
import type { Listed } from './listed.ts'
import { fail, NotRun, pass, verdict } from './outcome.ts'
import type { Sandbox, Target } from './sandbox.ts'

const namespaceOf = ({ environment }: CheckInputs) => names(environment.slice).namespaces.sandboxes

/** The sandbox controls this output, so it is cut. */
const KERNEL_CHARACTERS = 100
const NAME = /^[a-z0-9][a-z0-9.-]{0,252}$/

/** The pod of a sandbox. Throws if its UID is not the one that the service reports. */
async function podOf(inputs: CheckInputs, { bound }: Sandbox) {
  if (!bound) throw new NotRun('this service has no pods: its sandboxes are processes')
  if (!NAME.test(bound.podName)) throw new Error('the service reported a pod with an invalid name')
  const pod = Pod.parse(await inputs.kubectl('get', 'pod', bound.podName, '-n', namespaceOf(inputs)))
  if (pod.metadata.uid !== bound.podUid)
    throw new Error(`pod ${bound.podName} has another UID than the service reported`)
  return pod
}

/** A sandbox does not run on its node's kernel. */
export const kernel: Check = {
  id: 'kernel',
  shows: 'the kernel in a sandbox is not the kernel of its node',
  async run(inputs) {
    const { isolation } = inputs.environment
    if (isolation === 'none') throw new NotRun('isolation is none: sandboxes share the kernel of their node')
    const sandbox = await inputs.sandbox('command')
    const pod = await podOf(inputs, sandbox)
    const inside = (await sandbox.output('uname -r')).trim().slice(0, KERNEL_CHARACTERS)
    const { items } = Nodes.parse(await inputs.kubectl('get', 'nodes'))
    const node = items.find(({ metadata }) => metadata.name === pod.spec.nodeName)
    if (!node) throw new Error(`the node of pod ${pod.metadata.name} is not in the list of nodes`)
    const outside = node.status.nodeInfo.kernelVersion
    const wanted = RUNTIME_CLASSES[isolation].name
    const wrong = [
      ...(inside === outside ? [`sandbox and node both run ${inside}`] : []),
      ...(pod.spec.runtimeClassName === wanted
        ? []
        : [`the pod has runtime class ${pod.spec.runtimeClassName ?? '(none)'}, not ${wanted}`]),
    ]
    return verdict(wrong, `${inside} in the sandbox, ${outside} on ${node.metadata.name}`, {
      inside,
      outside,
    })
  },
}

const METADATA: readonly Target[] = [
  { host: '169.254.169.254', port: 80 },
  { host: '168.63.129.16', port: 80 },
  { host: '168.63.129.16', port: 32_526 },
]
/** Port of the kubelet. */
const KUBELET_PORT = 10_250
const OTHERS = 5

/** Destinations that no sandbox may reach, as far as the cluster's objects show them. */
async function forbidden(inputs: CheckInputs, own: string | undefined): Promise<Target[]> {
  const { infra } = inputs.environment
  const service = Service.parse(await inputs.kubectl('get', 'service', 'kubernetes', '-n', 'default'))
  const { items: nodes } = Nodes.parse(await inputs.kubectl('get', 'nodes'))
  const { items: pods } = Pods.parse(await inputs.kubectl('get', 'pods', '-n', namespaceOf(inputs)))
  const nodeIps = nodes.flatMap(({ status }) =>
    status.addresses.filter(({ type }) => type === 'InternalIP').map(({ address }) => address),
  )
  const podIps = pods.flatMap(({ metadata, status }) =>
    metadata.name === own || status.podIP === undefined ? [] : [status.podIP],
  )
  return [
    ...METADATA,
    { host: service.spec.clusterIP, port: 443 },
    ...nodeIps.slice(0, OTHERS).map((host) => ({ host, port: KUBELET_PORT })),
    ...podIps.slice(0, OTHERS).map((host) => ({ host, port: AGENT_HOST_PORT })),
    { host: infra.database.host, port: infra.database.port },
  ]
}

function listedOf({ listed }: CheckInputs): Listed {
  if (listed) return listed
  throw new NotRun(
    'policies/agent/egress.yaml allows pods no destination, so the probe has no reachable control destination',
  )
}

const told = ({ host, port }: Target) => `${host}:${port}`

/**
 * A failed connection proves a fence only if the same probe reaches an allowed destination. Otherwise the sandbox may
 * have no network at all, or the probe may be broken.
 */
export const fences: Check = {
  id: 'fences',
  shows: 'metadata, the API server, nodes, other sandboxes and the database are unreachable from a sandbox',
  async run(inputs) {
    const listed = listedOf(inputs)
    const sandbox = await inputs.sandbox(listed.kind)
    const targets = await forbidden(inputs, sandbox.bound?.podName)
    const reached = await sandbox.reached([...listed.targets, ...targets])
    const open = targets.filter((_, index) => reached[listed.targets.length + index])
    if (open.length > 0) return fail(`a sandbox reaches ${open.map(told).join(', ')}`, open)
    const controls = listed.targets.filter((_, index) => reached[index])
    const isClosed = inputs.environment.egress.mode === 'closed'
    if (controls.length === 0 && !isClosed)
      throw new NotRun(
        `no destination responds, including the destinations that class ${listed.kind} may reach (${listed.targets.map(told).join(', ')}), so the check proves nothing`,
      )
    return isClosed && controls.length > 0
      ? fail(`egress is closed, but a sandbox reaches ${controls.map(told).join(', ')}`)
      : pass(`${targets.length} targets, probed from class ${listed.kind}`, targets.map(told))
  },
}

/** An allowed name is reachable; another name is not. */
export const fqdn: Check = {
  id: 'names',
  shows: 'a sandbox reaches an allowed name and no other',
  async run(inputs) {
    const { mode } = inputs.environment.egress
    if (mode !== 'fqdn') throw new NotRun(`egress is ${mode}: no network rule uses names`)
    const { kind, targets } = listedOf(inputs)
    const unlisted = told(inputs.unlisted)
    if (targets.some((target) => told(target) === unlisted))
      throw new NotRun(`--unlisted names ${unlisted}, which class ${kind} may reach`)
    const sandbox = await inputs.sandbox(kind)
    const [isUnlistedOpen, ...answers] = await sandbox.reached([inputs.unlisted, ...targets])
    const reached = targets.filter((_, index) => answers[index]).map(told)
    const silent = targets.filter((_, index) => !answers[index]).map(told)
    const wrong = [
      ...(reached.length > 0
        ? []
        : [`${silent.join(', ')}: allowed for class ${kind}, but none is reachable`]),
      ...(isUnlistedOpen ? [`${unlisted} is not allowed, but reachable`] : []),
    ]
    const quiet = silent.length === 0 ? '' : `; no response from ${silent.join(', ')}`
    return verdict(wrong, `class ${kind} reaches ${reached.join(', ')} and not ${unlisted}${quiet}`)
  },
}

/** A claim gets a warm sandbox within the time limit. */
export const warm: Check = {
  id: 'warm',
  shows: 'a claim is served by a warm sandbox, in time',
  async run(inputs) {
    const made: Sandbox[] = [await inputs.sandbox('command')]
    try {
      while (made.length < inputs.claims) made.push(await inputs.anotherSandbox())
    } finally {
      await Promise.all(made.slice(1).map((sandbox) => sandbox.destroy()))
    }
    const cold = made.filter(({ bound }) => bound?.launch !== 'warm')
    if (made.every(({ bound }) => bound === undefined)) throw new NotRun('this service claims nothing')
    const times = made.map(({ readyMs }) => Math.round(readyMs)).toSorted((a, b) => a - b)
    const median = times[Math.floor((times.length - 1) / 2)] ?? 0
    const wrong = [
      ...(cold.length > 0 ? [`${cold.length} of ${made.length} were started cold: the pool was empty`] : []),
      ...(median > inputs.warmMs ? [`the median is ${median} ms, more than ${inputs.warmMs} ms`] : []),
    ]
    return verdict(wrong, `${made.length} claims, median ${median} ms, slowest ${times.at(-1) ?? 0} ms`, {
      readyMs: times,
    })
  },
}
