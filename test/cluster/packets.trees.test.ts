import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { EndpointId } from '../../charts-src/access-matrix/endpoints.ts'
import { type KubeObject, pathOf } from '../../devcluster/client/kube-object.ts'
import { createEvaluator } from '../../reachability/evaluate.ts'
import type { Evaluator } from '../../reachability/model.ts'
import { describeWith } from './helpers/features.ts'
import { besideBroadAllows, type CommittedTree, inMode, readCommittedTree } from './packets/committed-tree.ts'
import { askPatiently, describeQuestion, distinct, hasArrived } from './packets/questions.ts'
import { useStage } from './packets/stage.ts'
import { isSandbox, type TreeQuestion, treeCells, treeFacts, treesStage } from './packets/tree-cells.ts'

const COMMITTED = readdirSync(join(import.meta.dirname, '..', '..', 'gitops'), { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => readCommittedTree(name))
const LOCAL = readCommittedTree('local')
const TREES = [...COMMITTED, inMode(LOCAL, 'closed'), inMode(LOCAL, 'fqdn')]
/** Actors that no sandbox may reach under any policy. */
const NEVER: readonly EndpointId[] = [
  'agent',
  'command',
  'other agent',
  'other command',
  'stray sandbox',
  'api',
  'api gateway',
  'preview gateway',
  'stray control plane',
  'own node',
  'api server',
  'database',
  'metadata',
]
const titles = (questions: readonly TreeQuestion[]) => questions.map(describeQuestion)

describeWith(['cilium', 'cluster DNS', 'audit log', 'gvisor'], 'the committed network policies', () => {
  const stage = useStage(treesStage(TREES))

  /** Applies the policies of a tree for the tests of a block. */
  function useTree(tree: CommittedTree): () => readonly TreeQuestion[] {
    let inForce: KubeObject[] = []
    let cells: TreeQuestion[] = []
    const namespaces = [...new Set(tree.policies.map(({ metadata }) => metadata.namespace ?? ''))]
    beforeAll(async () => {
      cells = treeCells(stage(), tree, TREES)
      inForce = await Promise.all(tree.policies.map((policy) => stage().client.create(policy)))
      await stage().agent.waitUntilRealised({ namespaces, present: inForce })
    })
    afterAll(async () => {
      await Promise.all(inForce.map((policy) => stage().client.delete(pathOf(policy))))
      await stage().agent.waitUntilRealised({ namespaces, absent: inForce })
    })
    return () => cells
  }

  function evaluatorOf(tree: CommittedTree): Evaluator {
    const outcome = createEvaluator(tree.policies, treeFacts(stage(), tree))
    if (!outcome.ok) throw new Error(JSON.stringify(outcome.faults))
    return outcome.evaluator
  }

  async function arrivedOf(
    cells: readonly TreeQuestion[],
    shouldArrive: (cell: TreeQuestion) => boolean,
  ): Promise<TreeQuestion[]> {
    const outcomes = await askPatiently(stage(), cells, (index) => {
      const cell = cells[index]
      return cell !== undefined && shouldArrive(cell)
    })
    return cells.filter((_, index) => hasArrived(outcomes[index] ?? 'dropped'))
  }

  it('are necessary: without them every cell of the matrix is open', async () => {
    const cells = distinct(TREES.flatMap((tree) => treeCells(stage(), tree, TREES)))

    const arrived = new Set(await arrivedOf(cells, () => true))

    expect(cells.length).toBeGreaterThan(10_000)
    expect(titles(cells.filter((cell) => !arrived.has(cell)))).toEqual([])
  })

  describe.each(TREES)('of $name', (tree: CommittedTree) => {
    const cells = useTree(tree)

    it('open on packets only the connections in the table', async () => {
      const arrived = await arrivedOf(cells(), ({ isMeant }) => isMeant)

      expect(titles(arrived)).toEqual(titles(cells().filter(({ isMeant }) => isMeant)))
      expect(arrived.length).toBeGreaterThan(10)
    })

    it('are evaluated to the same result', () => {
      const evaluator = evaluatorOf(tree)
      const asked = cells().filter(({ probe }) => probe !== undefined)

      const allowed = asked.filter(({ probe }) => probe && evaluator.isAllowed(probe))

      expect(titles(allowed)).toEqual(titles(asked.filter(({ isMeant }) => isMeant)))
    })
  })

  const hurried = besideBroadAllows(LOCAL)
  describe(`of ${hurried.name}`, () => {
    const cells = useTree(hurried)

    it('still keep every sandbox away from its forbidden destinations', async () => {
      const evaluator = evaluatorOf(hurried)
      const asked = cells().filter(({ probe }) => probe !== undefined)

      const arrived = await arrivedOf(asked, ({ probe }) => probe !== undefined && evaluator.isAllowed(probe))

      const fromSandboxes = arrived.filter(({ from }) => isSandbox(from))
      expect(titles(fromSandboxes.filter(({ to }) => to !== undefined && NEVER.includes(to)))).toEqual([])
      expect(titles(fromSandboxes.filter(({ title }) => title.endsWith('a forbidden address')))).toEqual([])
      expect(titles(arrived)).toEqual(
        titles(asked.filter(({ probe }) => probe && evaluator.isAllowed(probe))),
      )
      expect(fromSandboxes.some(({ title }) => title.endsWith('the internet'))).toBe(true)
    })
  })

  describe('while the agent hangs', () => {
    // Only these policies depend on the agent's resolver.
    const cells = useTree(inMode(LOCAL, 'fqdn'))

    it('stay in force, and no name can be resolved through it', async () => {
      const byAddress = cells().filter(({ probe }) => probe?.to.kind !== 'name')
      const byName = cells().filter(({ probe }) => probe?.to.kind === 'name')

      const [arrived, named] = await stage().agent.whileItHangs(async () => [
        await arrivedOf(byAddress, ({ isMeant }) => isMeant),
        await arrivedOf(byName, () => false),
      ])
      const back = await arrivedOf(byName, ({ isMeant }) => isMeant)

      expect(titles(arrived)).toEqual(titles(byAddress.filter(({ isMeant }) => isMeant)))
      expect(titles(named)).toEqual([])
      expect(titles(back)).toEqual(titles(byName.filter(({ isMeant }) => isMeant)))
    })
  })
})
