import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Plan } from '../../../contracts/planned-resource.ts'
import type { UpReport } from '../../../infra/up/raise.ts'
import { reviewPlan } from '../../../tools/offline-plan/review.ts'
import { idsInCloud } from './in-cloud.ts'
import { prove } from './proof.ts'
import { aWorkspace, type Exported, type Ran, type Workspace } from './workspace.ts'

/**
 * A private cluster, created in layers by the documented command. Each test continues from the end of the previous
 * test.
 */
const NETWORK = 'prod-network'
const CLUSTER = 'prod-cluster'
const ADD_ONS = 'prod-add-ons'
const STACKS = [NETWORK, CLUSTER, ADD_ONS]
const UP = 'infra/up/main.ts'
let space: Workspace
beforeAll(async () => {
  space = await aWorkspace()
})
afterAll(() => space[Symbol.asyncDispose]())

const layered = (command: string, ran: Ran, outcome: string) =>
  prove({ part: 'Layers', command: `npm run up -- --stack prod${command}`, ran, outcome })
const raise = (...flags: string[]) => space.script(UP, '--stack', 'prod', ...flags)
const reportOf = ({ stdout }: Ran) => JSON.parse(stdout) as UpReport
const counted = (ran: Ran) =>
  reportOf(ran)
    .layers.map(({ stack, changes = {} }) => {
      const counts = Object.entries(changes).map(([op, count]) => `${op} ${count}`)
      return `${stack}: ${counts.join(', ')}`
    })
    .join('; ')

/** Counts of a run that changes nothing, as the committed plan of the stack has them. */
const plannedAsSame = (stack: string) => {
  const plan = JSON.parse(readFileSync(join(space.project, `plans/${stack}.json`), 'utf8')) as Plan
  return { same: reviewPlan(plan).counts.pulumi }
}

test('a preview of a missing stack creates no stack and names the plan', async () => {
  const ran = await raise('--preview', '--json')

  layered(' --preview', ran, 'no stack is made; the plan of each layer is named')
  expect(ran.status, ran.text).toBe(0)
  expect(reportOf(ran).layers.map(({ status }) => status)).toEqual(['absent', 'waiting', 'waiting'])
  expect(ran.stderr).toContain('npm run plan -- --stack prod-network')
  expect(space.stackFiles()).not.toMatch(/prod/)
})

test('without a terminal nothing is changed unless --yes is given', async () => {
  const ran = await raise()

  expect(ran.status).toBe(2)
  expect(ran.stderr).toContain('pass --yes')
  expect(idsInCloud(space)).toEqual([])
})

test('the network comes first, and nothing else with --to network', async () => {
  const ran = await raise('--to', 'network', '--yes', '--json')

  layered(' --to network --yes', ran, counted(ran))
  expect(ran.status, ran.text).toBe(0)
  expect(idsInCloud(space).filter((id) => id.includes('/managedclusters/'))).toEqual([])
  expect(idsInCloud(space).some((id) => id.endsWith('/subnets/agentweaver-prod-runners'))).toBe(true)
})

test('the last layer stops with the next step if the API server cannot be reached, and keeps its resources', async () => {
  space.cloud.stand('outside')

  const ran = await raise('--yes', '--json')

  layered(
    ' --yes',
    ran,
    'the API server is not reached: the add-ons stop with the next step, the cluster is up',
  )
  expect(ran.status, ran.text).toBe(1)
  expect(reportOf(ran).layers.map(({ status }) => status)).toEqual(['raised', 'raised', 'failed'])
  expect(ran.stderr).toMatch(/run it inside the network.*npm run up -- --stack prod/)
})

test('from inside the same command goes on, with the network and the cluster unchanged', async () => {
  space.cloud.stand('inside')
  const before = idsInCloud(space)

  const ran = await raise('--yes', '--json')
  const again = await raise('--yes', '--json')

  layered(' --yes', ran, `inside the network: goes on; ${counted(ran)}`)
  layered(' --yes', again, `a second time; ${counted(again)}`)
  expect([ran.status, again.status], `${ran.text}\n${again.text}`).toEqual([0, 0])
  expect(reportOf(ran).layers.map(({ status }) => status)).toEqual(['raised', 'raised', 'raised'])
  expect(reportOf(again).layers.map(({ changes }) => changes)).toEqual(STACKS.map(plannedAsSame))
  expect(idsInCloud(space)).toEqual(before)
})

test('the states of the layers together contain all resources of the cloud', async () => {
  const made: Exported[] = []
  for (const stack of STACKS) made.push(...(await space.made(stack)))
  const ids = made.filter(({ type }) => type.startsWith('azure-native:')).map(({ id }) => id?.toLowerCase())

  expect(ids.toSorted()).toEqual(idsInCloud(space))
  expect(made.length).toBe(space.cloud.list().length)
})

test('no credential crosses from one layer to the next', async () => {
  const outputs = await Promise.all(
    [NETWORK, CLUSTER].map((stack) => space.pulumi('stack', 'output', '--json', '--stack', stack)),
  )

  for (const { text } of outputs) {
    expect(text).toContain('boundary')
    expect(text).not.toMatch(/certificate-authority-data|clusterUser_|\[secret\]/)
  }
  expect(space.backendText()).not.toMatch(/certificate-authority-data|clusterUser_/)
})

test('the environment is written from the outputs of the layer cluster', async () => {
  const ran = await space.script('infra/outputs/main.ts', '--stack', 'prod')

  prove({
    part: 'Layers',
    command: 'npm run environment -- --stack prod',
    ran,
    outcome: 'environments/prod.json written from prod-cluster',
  })
  expect(ran.status, ran.text).toBe(0)
  expect(ran.text).toContain('wrote environments/prod.json')
})

test('a preview after up shows no change', async () => {
  const ran = await raise('--preview', '--json')

  layered(' --preview', ran, counted(ran))
  expect(ran.status, ran.text).toBe(0)
  for (const { changes } of reportOf(ran).layers) expect(Object.keys(changes ?? {})).toEqual(['same'])
})

test('a protected layer is not destroyed', async () => {
  const before = idsInCloud(space)

  const ran = await space.destroy(NETWORK)

  prove({
    part: 'Layers',
    command: 'pulumi destroy --stack prod-network',
    ran,
    outcome: 'refused: protected',
  })
  expect(ran.status).not.toBe(0)
  expect(idsInCloud(space)).toEqual(before)
})

test('without protection the layers are destroyed in reverse order, and nothing is left', async () => {
  // The stack file of production must protect its resources, so the test removes the protection from the state.
  const down: Ran[] = []
  for (const stack of STACKS.toReversed()) {
    const unprotected = await space.pulumi('state', 'unprotect', '--all', '--yes', '--stack', stack)
    const ran = await space.destroy(stack)
    prove({
      part: 'Layers',
      command: `pulumi state unprotect --all --stack ${stack}`,
      ran: unprotected,
      outcome: 'done',
    })
    prove({
      part: 'Layers',
      command: `pulumi destroy --stack ${stack}`,
      ran,
      outcome: `its layer is gone; ${idsInCloud(space).length} resources of Azure left`,
    })
    down.push(unprotected, ran)
  }

  expect(
    down.map(({ status }) => status),
    down.map(({ text }) => text).join('\n'),
  ).toEqual([0, 0, 0, 0, 0, 0])
  expect(idsInCloud(space)).toEqual([])
})
