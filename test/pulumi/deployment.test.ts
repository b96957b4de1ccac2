import { expect, test } from 'vitest'
import { covers, type Deployment, type Goal } from '../fakes/pulumi/engine/deployment.ts'
import { isSecret, type Properties, readable, secret, UNKNOWN } from '../fakes/pulumi/values.ts'
import { ASSIGNMENT, aStack, GROUP, IDENTITY, WORKSPACE } from './helpers/deployment.ts'

interface Shape {
  readonly tags?: Properties
  readonly sku?: string
  readonly name?: string
  readonly location?: string
  readonly workspace?: Partial<Goal>
  readonly group?: Partial<Goal>
}

/** A group, a workspace in it and an identity beside it: enough for every step that an engine takes. */
const program =
  ({ tags = {}, sku = 'PerGB2018', name = 'logs', location = 'westeurope', workspace, group }: Shape = {}) =>
  async (engine: Deployment) => {
    const inputs = { resourceGroupName: 'rg-test', tags, location }
    const made = await engine.register({ type: GROUP, name: 'group', custom: true, inputs, ...group })
    const resourceGroupName = made.outputs['name'] ?? UNKNOWN
    await engine.register({
      type: WORKSPACE,
      name: 'logs',
      custom: true,
      inputs: { resourceGroupName, workspaceName: name, sku: { name: sku }, tags },
      dependencies: [made.urn],
      ...workspace,
    })
  }

test('makes everything once, in a preview nothing, and the second time nothing at all', async () => {
  await using stack = await aStack()

  const preview = await stack.preview(program())
  const emptyCloud = stack.cloud.list().length
  const first = await stack.up(program())
  const second = await stack.up(program())

  expect(preview.changes).toEqual(['create group', 'create logs'])
  expect(emptyCloud).toBe(0)
  expect(first).toMatchObject({ changes: ['create group', 'create logs'], errors: [] })
  expect(second.changes).toEqual([])
  expect(stack.state.list().map(({ id }) => stack.cloud.get(id)?.id)).toEqual(
    stack.state.list().map(({ id }) => id),
  )
})

test('updates in place what Azure can change, and replaces the rest, old one first', async () => {
  await using stack = await aStack()
  await stack.up(program())

  const updated = await stack.up(program({ tags: { env: 'dev' } }))
  const replaced = await stack.up(program({ tags: { env: 'dev' }, name: 'other' }))

  expect(updated.changes).toEqual(['update group', 'update logs'])
  expect(replaced.steps.filter(({ kind }) => kind === 'replace')).toMatchObject([
    { paths: ['workspaceName'] },
  ])
  const workspaces = stack.cloud.log().filter(({ type, op }) => type === WORKSPACE && op !== 'update')
  expect(workspaces.map(({ op }) => op)).toEqual(['create', 'delete', 'create'])
  expect(stack.cloud.list()).toHaveLength(2)
})

test('refuses by name to replace or delete what is protected, and touches nothing', async () => {
  await using stack = await aStack()
  const guarded = { protect: true }
  await stack.up(program({ workspace: guarded }))

  const replaced = await stack.up(program({ name: 'other', workspace: guarded }))
  const destroyed = await stack.destroy()

  expect(replaced.errors).toEqual([
    expect.stringMatching(/::logs: unable to replace .* marked for protection/),
  ])
  expect(destroyed.errors).toEqual([
    expect.stringMatching(/::logs: resource cannot be deleted because it is protected/),
  ])
  expect(stack.cloud.list()).toHaveLength(2)
})

test('leaves to others what the program ignores', async () => {
  await using stack = await aStack()
  const workspace = { ignoreChanges: ['sku.name'] }
  await stack.up(program({ workspace }))

  const ignored = await stack.up(program({ sku: 'CapacityReservation', workspace }))
  const seen = await stack.up(program({ sku: 'CapacityReservation' }))

  expect(ignored.changes).toEqual([])
  expect(seen.changes).toEqual(['update logs'])
})

test('replaces what the program says must be replaced', async () => {
  await using stack = await aStack()
  const workspace = { replaceOnChanges: ['sku'], deleteBeforeReplace: true }
  await stack.up(program({ workspace }))

  const result = await stack.up(program({ sku: 'Free', workspace }))

  expect(result).toMatchObject({ changes: ['replace logs'], errors: [] })
})

test('makes the new one first without deleteBeforeReplace, and finds the name taken', async () => {
  await using stack = await aStack()
  await stack.up(program())

  const result = await stack.up(program({ sku: 'Free', workspace: { replaceOnChanges: ['*'] } }))

  expect(result.errors).toEqual([expect.stringMatching(/cannot create already existing resource/)])
})

test('goes on where a failure stopped it', async () => {
  await using stack = await aStack()
  stack.cloud.plant({ op: 'create', type: WORKSPACE, how: 'before' })

  const failed = await stack.up(program())
  const next = await stack.up(program())

  expect(failed.errors).toEqual([expect.stringMatching(/::logs: .*planted/)])
  expect(next).toMatchObject({ changes: ['create logs'], errors: [] })
  expect(stack.cloud.list()).toHaveLength(2)
})

test('keeps an object that did not become ready, and puts it right the next time', async () => {
  await using stack = await aStack()
  stack.cloud.plant({ op: 'create', type: WORKSPACE, how: 'partial' })

  const failed = await stack.up(program())
  const kept = stack.state.list().find(({ name }) => name === 'logs')
  const next = await stack.up(program())

  expect(failed.errors).toHaveLength(1)
  expect(kept?.initErrors).toEqual([expect.stringMatching(/did not become ready/)])
  expect(next).toMatchObject({ changes: ['update logs'], errors: [] })
})

test('tells of an object that was made behind a failure, instead of taking it over', async () => {
  await using stack = await aStack()
  stack.cloud.plant({ op: 'create', type: WORKSPACE, how: 'after' })

  await stack.up(program())
  const next = await stack.up(program())

  expect(next.errors).toEqual([
    expect.stringMatching(/cannot create already existing resource '.*\/workspaces\/logs'/),
  ])
})

test('brings drift into the state, and the next run takes it back', async () => {
  await using stack = await aStack()
  await stack.up(program({ tags: { env: 'dev' } }))
  const id = stack.state.list().find(({ name }) => name === 'logs')?.id ?? ''

  const quiet = await stack.refresh()
  stack.cloud.alter(id, 'tags.env', 'prod')
  const found = await stack.refresh()
  const back = await stack.up(program({ tags: { env: 'dev' } }))

  expect(quiet.changes).toEqual([])
  expect(found.changes).toEqual(['refresh logs'])
  expect(back.changes).toEqual(['update logs'])
  expect(stack.cloud.get(id)?.outputs['tags']).toEqual({ env: 'dev' })
})

test('makes again what somebody deleted', async () => {
  await using stack = await aStack()
  await stack.up(program())
  stack.cloud.remove(stack.state.list().find(({ name }) => name === 'logs')?.id ?? '')

  const found = await stack.refresh()
  const back = await stack.up(program())

  expect(found.changes).toEqual(['delete logs'])
  expect(back.changes).toEqual(['create logs'])
})

test('deletes what the program no longer has, and everything in the end', async () => {
  await using stack = await aStack()
  await stack.up(program())

  const fewer = await stack.up((engine) =>
    engine.register({
      type: GROUP,
      name: 'group',
      custom: true,
      inputs: { resourceGroupName: 'rg-test', tags: {}, location: 'westeurope' },
    }),
  )
  await stack.destroy()

  expect(fewer.changes).toEqual(['delete logs'])
  expect(stack.cloud.list()).toEqual([])
  expect(stack.state.list()).toEqual([])
})

test('asks no provider to delete what goes with its container, nor what is to stay', async () => {
  await using stack = await aStack()
  const group = `urn:pulumi:test::agentweaver::${GROUP}::group`
  await stack.up(program({ workspace: { deletedWith: group } }))
  await stack.destroy()
  const asked = stack.cloud.log().filter(({ op }) => op === 'delete')
  await stack.up(program({ group: { retainOnDelete: true } }))
  const kept = await stack.destroy()

  expect(asked.map(({ type }) => type)).toContain(GROUP)
  expect(kept.changes).toContain('forget group')
  expect(stack.cloud.list().map(({ type }) => type)).toEqual([GROUP])
})

test('keeps secret inputs secret in the outputs of a provider that does not know of secrets', async () => {
  await using stack = await aStack()

  await stack.up((engine) =>
    engine.register({
      type: GROUP,
      name: 'group',
      custom: true,
      inputs: { resourceGroupName: 'rg-test', tags: secret({ token: 'canary' }) },
    }),
  )

  const [group] = stack.state.list()
  expect(isSecret(group?.outputs['tags'] ?? null)).toBe(true)
  expect(JSON.stringify(readable([group?.inputs ?? {}, group?.outputs ?? {}]))).not.toContain('canary')
})

test('shows in a preview of an update that a principal may become another: the plan is more cautious than the run', async () => {
  await using stack = await aStack()
  const identities = (tags: Properties) => async (engine: Deployment) => {
    const group = await engine.register({
      type: GROUP,
      name: 'group',
      custom: true,
      inputs: { resourceGroupName: 'rg-test' },
    })
    const who = await engine.register({
      type: IDENTITY,
      name: 'api',
      custom: true,
      inputs: { resourceGroupName: 'rg-test', resourceName: 'api', tags },
      dependencies: [group.urn],
    })
    await engine.register({
      type: ASSIGNMENT,
      name: 'reader',
      custom: true,
      inputs: {
        scope: group.id || UNKNOWN,
        principalId: who.outputs['principalId'] ?? UNKNOWN,
        principalType: 'ServicePrincipal',
        roleDefinitionId:
          '/providers/Microsoft.Authorization/roleDefinitions/acdd72a7-3385-48ef-bd42-f606fba81ae7',
        roleAssignmentName: '0e6cf6b1-1111-5222-8333-444455556666',
      },
    })
  }
  await stack.up(identities({}))

  const preview = await stack.preview(identities({ env: 'dev' }))
  const up = await stack.up(identities({ env: 'dev' }))

  expect(preview.changes).toEqual(['update api', 'replace reader'])
  expect(up).toMatchObject({ changes: ['update api'], errors: [] })
})

test.each([
  ['tags', 'tags.env', true],
  ['agentPoolProfiles[0].count', 'agentPoolProfiles[0].count', true],
  ['agentPoolProfiles[*].count', 'agentPoolProfiles[3].count', true],
  ['*', 'anything.at.all', true],
  ['tag', 'tags', false],
  ['a.b', 'axb', false],
])('covers with %s the path %s: %s', (pattern, path, isCovered) => {
  expect(covers(pattern, path)).toBe(isCovered)
})
