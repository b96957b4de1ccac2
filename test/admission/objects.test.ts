import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { SANDBOXES_SUFFIX } from '../../charts-src/admission/bound-policy.ts'
import { addAdmission } from '../../charts-src/apps/admission.ts'
import { loadEnvironment } from '../../charts-src/environment/load-environment.ts'
import type { Environment } from '../../charts-src/environment/schema.ts'
import { chartObjects } from '../../charts-src/tree/chart-objects.ts'
import { names } from '../../contracts/names.ts'
import { ADMISSION_POLICIES } from '../../policies/admission/policies.ts'
import type { Draft } from './examples/attempt.ts'

function environment(name: string): Environment {
  const text = readFileSync(new URL(`../../environments/${name}.json`, import.meta.url), 'utf8')
  const loaded = loadEnvironment(name, text)
  if (!loaded.ok) throw new Error(`environments/${name}.json does not load`)
  return loaded.environment
}

const render = (name: string) =>
  chartObjects((chart) => addAdmission(chart, environment(name))) as readonly Draft[]
const ofKind = (objects: readonly Draft[], kind: string) =>
  objects.filter((object) => object['kind'] === kind)

test('the base slice has every policy, a binding of it, and its parameters in each of its namespaces', () => {
  const objects = render('prod')

  expect(ofKind(objects, 'ValidatingAdmissionPolicy')).toHaveLength(ADMISSION_POLICIES.length)
  expect(ofKind(objects, 'ValidatingAdmissionPolicyBinding')).toHaveLength(ADMISSION_POLICIES.length)
  expect(
    ofKind(objects, 'ConfigMap')
      .map(({ metadata }) => metadata.namespace)
      .sort(),
  ).toEqual(['agentweaver', 'agentweaver-egress', 'agentweaver-sandboxes'])
})

test('a preview slice has its parameters alone, with its own names in them', () => {
  const preview = environment('pr-example')

  const objects = render('pr-example')

  const { pool, namespaces } = names(preview.slice)
  expect(objects.map(({ kind }) => kind)).toEqual(['ConfigMap', 'ConfigMap', 'ConfigMap'])
  expect(objects[0]!['metadata'].namespace).toBe(namespaces.sandboxes)
  expect(objects[0]!['data'].pools).toBe(`${pool('agent')},${pool('command')}`)
})

test('every policy fails closed, refuses, and refuses without its parameters', () => {
  const objects = render('prod')

  for (const { spec } of ofKind(objects, 'ValidatingAdmissionPolicy')) expect(spec.failurePolicy).toBe('Fail')
  for (const { spec } of ofKind(objects, 'ValidatingAdmissionPolicyBinding')) {
    expect(spec.validationActions).toEqual(['Deny'])
    if (spec.paramRef) expect(spec.paramRef.parameterNotFoundAction).toBe('Deny')
  }
})

test('a policy that reads parameters is bound to them, and no other is', () => {
  const objects = render('prod')
  const bindings = new Map(
    ofKind(objects, 'ValidatingAdmissionPolicyBinding').map(({ spec }) => [spec.policyName, spec]),
  )

  for (const { metadata, spec } of ofKind(objects, 'ValidatingAdmissionPolicy')) {
    const reads = JSON.stringify(spec).includes('params.')
    expect(Boolean(spec.paramKind), metadata.name).toBe(reads)
    expect(Boolean(bindings.get(metadata.name)?.paramRef), metadata.name).toBe(reads)
  }
})

test('every key that a rule reads is among the parameters of every environment', () => {
  for (const name of ['dev', 'prod', 'local', 'pr-example']) {
    const [parameters] = ofKind(render(name), 'ConfigMap')
    const read = [...JSON.stringify(ADMISSION_POLICIES).matchAll(/params\.data\.([A-Za-z]+)/g)].map(
      ([, key]) => key ?? '',
    )

    expect([...new Set(read)].sort()).toEqual(Object.keys(parameters!['data']).sort())
  }
})

test('namespaces of sandboxes are known by their ending in every slice', () => {
  for (const slice of [{ kind: 'base' }, { kind: 'preview', slug: 'x-012345' }] as const) {
    const { sandboxes, ...others } = names(slice).namespaces
    expect(sandboxes.endsWith(SANDBOXES_SUFFIX)).toBe(true)
    for (const other of Object.values(others)) expect(other.endsWith(SANDBOXES_SUFFIX)).toBe(false)
  }
})

test('the names that need the label are exactly our namespaces, in every slice', () => {
  const policy = ofKind(render('prod'), 'ValidatingAdmissionPolicy').find(
    ({ metadata }) => metadata.name === 'agentweaver-namespaces',
  )
  const variable = policy!['spec'].variables.find((entry: Draft) => entry['name'] === 'ownNamespaces')
  const pattern = new RegExp(String(variable.expression).slice(1, -1))

  for (const slice of [{ kind: 'base' }, { kind: 'preview', slug: 'fix-the-thing-012345' }] as const) {
    const { controlPlane, sandboxes, egress, controller } = names(slice).namespaces
    for (const name of [controlPlane, sandboxes, egress]) expect(name).toMatch(pattern)
    expect(controller).not.toMatch(pattern)
  }
  expect('agentweavers').not.toMatch(pattern)
})
