import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createEvaluator } from '../../charts-src/reachability/evaluate.ts'
import { type KubeObject, pathOf } from '../kube/client/kube-object.ts'
import { describeWith } from './helpers/features.ts'
import { type CommittedTree, readCommittedTree } from './packets/committed-tree.ts'
import { askPatiently, describeQuestion, distinct, hasArrived } from './packets/questions.ts'
import { useStage } from './packets/stage.ts'
import { type TreeQuestion, treeCells, treeFacts, treesStage } from './packets/tree-cells.ts'

const TREES = readdirSync(join(import.meta.dirname, '..', '..', 'gitops')).map(readCommittedTree)
const titles = (questions: readonly TreeQuestion[]) => questions.map(describeQuestion)

describeWith(['cilium', 'cluster DNS', 'audit log', 'gvisor'], 'the committed network policies', () => {
  const stage = useStage(treesStage(TREES))

  it('are the only thing that closes a cell: without them every one of the matrix is open', async () => {
    const cells = distinct(TREES.flatMap((tree) => treeCells(stage(), tree, TREES)))

    const outcomes = await askPatiently(stage(), cells, () => true)

    expect(titles(cells.filter((_, index) => !hasArrived(outcomes[index] ?? 'dropped')))).toEqual([])
  })

  describe.each(TREES)('of $name', (tree: CommittedTree) => {
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

    it('open on packets what the table lists, and nothing else', async () => {
      const outcomes = await askPatiently(stage(), cells, (index) => cells[index]?.isMeant ?? false)

      const arrived = cells.filter((_, index) => hasArrived(outcomes[index] ?? 'dropped'))
      expect(titles(arrived)).toEqual(titles(cells.filter(({ isMeant }) => isMeant)))
      expect(arrived.length).toBeGreaterThan(10)
    })

    it('are computed to open just that', () => {
      const outcome = createEvaluator(tree.policies, treeFacts(stage(), tree))
      if (!outcome.ok) throw new Error(JSON.stringify(outcome.faults))

      const asked = cells.filter(({ probe }) => probe !== undefined)
      const allowed = asked.filter(({ probe }) => probe && outcome.evaluator.isAllowed(probe))

      expect(titles(allowed)).toEqual(titles(asked.filter(({ isMeant }) => isMeant)))
    })
  })
})
