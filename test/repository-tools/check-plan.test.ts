import { beforeAll, expect, test } from 'vitest'
import { shapesFolder } from '../../tools/azure-shapes/cache.ts'
import { loadShapes, type Shapes } from '../../tools/azure-shapes/check-shapes.ts'
import { checkPlan } from '../../tools/plan-rules/check-plan.ts'
import { CLUSTER, POOL, POOL_ARGS, planOf } from '../infra/one-resource.ts'

let shapes: Shapes
beforeAll(async () => {
  shapes = await loadShapes([CLUSTER, POOL], shapesFolder(process.env['XDG_CACHE_HOME']))
})

const TAGS = { env: 'dev', owner: 'x', costCenter: 'x', managedBy: 'x' }
const SOUND = { ...POOL_ARGS, enableAutoScaling: true, minCount: 1, maxCount: 2, tags: TAGS }
const made = (inputs: object) => {
  const plan = planOf(POOL, inputs)
  return { ...plan, resources: plan.resources.map((one) => ({ ...one, ignoreChanges: ['count'] })) }
}

test('says that a plan is sound, in one line', () => {
  expect(checkPlan(made(SOUND), shapes)).toEqual({ isSound: true, text: 'dev: 1 resources, sound' })
})

test('reports rule violations and values that Azure would reject, by resource and field', () => {
  const { isSound, text } = checkPlan(made({ ...SOUND, osSKU: 'Ubuntu', osDiskSizeGB: 4096 }), shapes)

  expect(isSound).toBe(false)
  expect(text).toBe(
    [
      'dev: 1 resources, refused',
      '  refused by rules:',
      '    [kata-os] containerservice:AgentPool thing: osSKU is "Ubuntu": set it to "AzureLinux" or "AzureLinux3"',
      '  not of a shape that Azure takes:',
      '    containerservice:AgentPool thing: osDiskSizeGB is 4096; Azure takes at most 2048',
    ].join('\n'),
  )
})

test('reports advice and unknown values, and accepts the plan', () => {
  const inputs = { ...SOUND, vmSize: 'Standard_D64ds_v5', upgradeSettings: { $unknown: 'x' } }
  const { isSound, text } = checkPlan(made(inputs), shapes)

  expect(isSound).toBe(true)
  expect(text).toContain('  advised by rules:\n    [cost] containerservice:AgentPool thing: vmSize')
  expect(text).toContain(
    '  not shown by the plan, so not checked:\n    containerservice:AgentPool thing: upgradeSettings',
  )
})
