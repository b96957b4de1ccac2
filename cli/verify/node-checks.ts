import type { Check, CheckInputs } from './check.ts'
import {
  cpuMillisOf,
  hasKataTaint,
  isKata,
  isReady,
  mibOf,
  type Node,
  Nodes,
  poolOf,
} from './kube-objects.ts'
import { NotRun, type Outcome, verdict } from './outcome.ts'

async function nodesOf({ kubectl }: CheckInputs): Promise<Node[]> {
  const { items } = Nodes.parse(await kubectl('get', 'nodes'))
  if (items.length === 0) throw new NotRun('the cluster has no nodes')
  return items
}

/** Every pool has the number of ready nodes and the VM size that the stack file requires. */
export const pools: Check = {
  id: 'pools',
  shows: 'every pool of the stack file is there, within its bounds, and ready',
  async run(inputs) {
    if (!inputs.pools) throw new NotRun(`there is no Pulumi.${inputs.environment.name}.yaml to compare with`)
    const nodes = await nodesOf(inputs)
    if (nodes.every((node) => poolOf(node) === undefined)) throw new NotRun('the nodes belong to no AKS pool')
    const wrong = [...inputs.pools].flatMap(([pool, wanted]) => {
      const own = nodes.filter((node) => poolOf(node) === pool)
      const ready = own.filter(isReady).length
      const otherSizes = own.filter(
        ({ metadata }) => metadata.labels['node.kubernetes.io/instance-type'] !== wanted.size,
      )
      return [
        ...(ready < wanted.min || ready > wanted.max
          ? [`pool ${pool} has ${ready} ready nodes; the stack file requires ${wanted.min} to ${wanted.max}`]
          : []),
        ...otherSizes.map(({ metadata }) => `node ${metadata.name} is not a ${wanted.size}`),
      ]
    })
    return verdict(wrong, `${inputs.pools.size} pools, ${nodes.filter(isReady).length} ready nodes`)
  },
}

/** Nodes that sandboxes run on: Kata nodes for isolation kata, otherwise all ready nodes. */
const sandboxNodes = ({ environment }: CheckInputs, nodes: readonly Node[]) =>
  nodes.filter((node) => isReady(node) && (environment.isolation !== 'kata' || isKata(node)))

/** Nodes offer at least what the environment file assumes. The measured values can be copied into that file. */
export const capacity: Check = {
  id: 'capacity',
  shows: 'nodes for sandboxes offer at least what the environment file assumes',
  async run(inputs) {
    const { environment } = inputs
    const own = sandboxNodes(inputs, await nodesOf(inputs))
    if (own.length === 0) throw new NotRun(`no node supports isolation ${environment.isolation}`)
    const offered = own.map(({ metadata, status }) => ({
      name: metadata.name,
      cpuMillis: cpuMillisOf(status.allocatable['cpu'] ?? '') ?? 0,
      memoryMib: mibOf(status.allocatable['memory'] ?? '') ?? 0,
      ephemeralMib: mibOf(status.allocatable['ephemeral-storage'] ?? '') ?? 0,
      pods: Number(status.allocatable['pods'] ?? 0),
    }))
    const keys = ['cpuMillis', 'memoryMib', 'ephemeralMib', 'pods'] as const
    const wanted = environment.infra.sandboxNodes
    const wrong = offered.flatMap((node) =>
      keys
        .filter((key) => node[key] < wanted[key])
        .map(
          (key) => `node ${node.name} offers ${node[key]} ${key}; the environment file has ${wanted[key]}`,
        ),
    )
    return verdict(wrong, `${own.length} nodes offer at least what the environment file assumes`, offered)
  },
}

/** Only sandboxes are scheduled on nodes for sandboxes. */
export const taints: Check = {
  id: 'taints',
  shows: 'nodes for Kata pods carry the label and the taint, and no other node the label',
  async run(inputs): Promise<Outcome> {
    if (inputs.environment.isolation !== 'kata')
      throw new NotRun(`isolation is ${inputs.environment.isolation}: only kata has separate nodes`)
    const kata = (await nodesOf(inputs)).filter(isKata)
    if (kata.length === 0)
      throw new NotRun('no node has the label of Kata nodes: the pool is at zero or missing')
    const bare = kata.filter((node) => !hasKataTaint(node))
    return verdict(
      bare.map(({ metadata }) => `node ${metadata.name} lacks the taint, so any pod may be scheduled there`),
      `${kata.length} nodes`,
    )
  },
}
