import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { deploy } from './deployment.ts'
import { syntaxProblems } from './syntax.ts'

test.each([
  ['a missing bracket', "param a string\nvar b = [a\nvar c = 'x'", /is not Bicep|is missing/],
  ['an open string', "var a = 'x", /is not Bicep|is missing/],
  ['a word that is no statement', 'parameter a string', /is not Bicep|is missing/],
  ['two properties on one line without a comma', 'var a = { b: 1 c: 2 }', /line 1: c: 2 needs one separator/],
  ['a comma at the end of a line', "var a = [\n  'b',\n  'c'\n]", /line 3: 'c' needs one separator/],
  ['two statements on one line', "var a = 'b' var c = 'd'", /needs one separator/],
])('reports %s', (_, text, expected) => {
  expect(syntaxProblems(text).join('\n')).toMatch(expected)
})

describe('the evaluator of the tests', () => {
  const folder = mkdtempSync(join(tmpdir(), 'agentweaver-bicep-'))
  afterAll(() => rmSync(folder, { recursive: true }))
  let count = 0
  /** Deploys a text. Other files are next to it. */
  function deployText(text: string, { others = {}, parameters = {} }: Given = {}) {
    const place = join(folder, String(count++))
    mkdirSync(place)
    for (const [name, other] of Object.entries(others)) writeFileSync(join(place, name), other)
    const file = join(place, 'main.bicep')
    writeFileSync(file, `targetScope = 'subscription'\n${text}`)
    return deploy(file, parameters, '00000000-0000-4000-8000-000000000000')
  }
  interface Given {
    readonly others?: Readonly<Record<string, string>>
    readonly parameters?: Readonly<Record<string, string | number | string[]>>
  }
  const GROUP =
    "resource group 'Microsoft.Resources/resourceGroups@2024-03-01' = { name: 'rg', location: 'x' }"
  const role = (name: string) =>
    `resource grant 'Microsoft.Authorization/roleAssignments@2022-04-01' = { name: ${name} }`

  test('gives strings, conditions, lists and names as Bicep does', () => {
    const { outputs, resources } = deployText(`
      param names string[] = ['a', 'b']
      var quoted = '\\'\${join(names, ', ')} \${names[1]} \\'' // a comment
      var lines = '''
first 'line'
last'''
      resource groups 'Microsoft.Resources/resourceGroups@2024-03-01' = [
        for (name, i) in names: {
          name: 'rg-\${name}'
          location: i == 0 ? 'x' : 'y'
        }
      ]
      resource none 'Microsoft.Resources/resourceGroups@2024-03-01' = if (empty(names)) {
        name: 'none'
      }
      output quoted string = quoted
      output lines string = lines
      output ids array = [for (name, i) in names: groups[i].id]`)

    expect(resources.map(({ name, location }) => [name, location])).toEqual([
      ['rg-a', 'x'],
      ['rg-b', 'y'],
    ])
    const id = (name: string) => `/subscriptions/00000000-0000-4000-8000-000000000000/resourceGroups/${name}`
    expect(outputs).toEqual({
      quoted: "'a, b b '",
      lines: "first 'line'\nlast",
      ids: [id('rg-a'), id('rg-b')],
    })
  })

  test('finds what a resource waits for, also through variables, modules and dependsOn', () => {
    const { waitsFor } = deployText(
      `${GROUP}
      resource other 'Microsoft.Resources/resourceGroups@2024-03-01' = { name: 'other' }
      var ids = [group.id]
      var names = [for id in ids: guid(id)]
      module inner 'inner.bicep' = {
        name: 'inner'
        scope: resourceGroup('rg')
        params: { group: 'x' }
        dependsOn: [other]
      }
      resource grants 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
        for name in names: {
          name: name
          properties: { principalId: inner.outputs.principal }
        }
      ]`,
      { others: { 'inner.bicep': "param group string\noutput principal string = 'p'" } },
    )

    expect(waitsFor.get('inner')).toEqual(new Set(['other']))
    expect(waitsFor.get('grants')).toEqual(new Set(['group', 'inner']))
  })

  test.each([
    ['an unknown function', `${GROUP}\nvar a = uniqueString('b')`, /unknown function uniqueString/],
    ['an unknown operator', "var a = 'b' ?? 'c'", /unknown operator \?\?/],
    [
      'a loop inside an object of a variable',
      'var a = {\n  b: [for c in []: c]\n}',
      /unknown syntax for_statement/,
    ],
    ['a name that is not declared', 'var a = b', /b is not declared/],
    [
      'a name that Azure decides',
      `${GROUP}\n${role('group.properties.principalId')}`,
      /name of grant is not known/,
    ],
    [
      'an argument of guid that Azure decides',
      `${GROUP}\n${role('guid(group.properties.x)')}`,
      /is not known/,
    ],
    ['a missing member', "var a = { b: 'c' }\nvar d = a.e", /there is no e/],
    [
      'a type that a subscription cannot have',
      "resource a 'A.B/c@2024-01-01' = { name: 'x' }",
      /cannot be deployed/,
    ],
    ['an unknown property of a resource', `${GROUP.replace('location', 'locaton')}`, /unknown: locaton/],
    ['two declarations of one name', "var a = 'b'\nvar a = 'c'", /declared twice/],
    ['an unknown decorator', '@secure()\nparam a string', /unknown decorator secure/],
  ])('rejects %s', (_, text, expected) => {
    expect(() => deployText(text)).toThrow(expected)
  })

  test.each([
    ['a missing parameter', {}, /needs the parameter a/],
    ['an unknown parameter', { a: 'abc', b: 'c' }, /has no parameter b/],
    ['a parameter of another type', { a: 1 }, /parameter a is not of type string/],
    ['a parameter that is too short', { a: 'ab' }, /parameter a is shorter than 3/],
    ['a parameter that is too long', { a: 'abcde' }, /parameter a is longer than 4/],
  ])('rejects %s', (_, parameters, expected) => {
    expect(() => deployText('@minLength(3)\n@maxLength(4)\nparam a string', { parameters })).toThrow(expected)
  })

  test.each([
    [
      'a parameter of a module that is not known when the deployment starts',
      '{ a: group.properties.b }',
      /parameters of inner is not/,
    ],
    ['a parameter that the module lacks', "{ c: 'd' }", /has no parameter c/],
  ])('rejects %s', (_, params, expected) => {
    const text = `${GROUP}\nmodule inner 'inner.bicep' = { name: 'i', scope: group, params: ${params} }`

    expect(() => deployText(text, { others: { 'inner.bicep': 'param a string' } })).toThrow(expected)
  })

  test('rejects a name that the imported file does not export', () => {
    const others = { 'other.bicep': "var a = 'b'" }

    expect(() => deployText("import { a } from 'other.bicep'\nvar c = a", { others })).toThrow(
      /does not export a/,
    )
  })
})
