import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { AgentPoolArgs, ManagedClusterArgs } from '@pulumi/azure-native/containerservice/index.js'
import * as pulumi from '@pulumi/pulumi'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { checkShapes, loadShapes, type Shapes } from '../../tools/azure-shapes/check-shapes.ts'
import { CLUSTER, CLUSTER_ARGS, POOL, POOL_ARGS, planOf } from '../infra/one-resource.ts'

const cache = mkdtempSync(join(tmpdir(), 'shapes-'))
let shapes: Shapes

beforeAll(async () => {
  shapes = await loadShapes([CLUSTER, POOL], cache)
})
afterAll(() => rmSync(cache, { recursive: true, force: true }))

const problems = (type: string, inputs: object) =>
  checkShapes(planOf(type, inputs), shapes).map(({ path, message }) => `${path} ${message}`)

/** Built apart from its use, so that the compiler has no fresh literal to compare. */
const misspelt = { enableVTPM: false, enableSecureBot: false }
const numbered = JSON.parse('"128"') as number

interface Planted {
  readonly mistake: string
  readonly type: string
  /** The type annotation proves that the compiler accepts these arguments. */
  readonly args: AgentPoolArgs | ManagedClusterArgs
  readonly says: readonly string[]
}

/** Each of these compiles, and a run with the SDK's mocks records it unchanged. */
const ACCEPTED_BY_TYPES_AND_MOCKS: readonly Planted[] = [
  {
    mistake: 'an enum value of an older version',
    type: POOL,
    args: { ...POOL_ARGS, workloadRuntime: 'KataMshvVmIsolation' },
    says: [
      'workloadRuntime is "KataMshvVmIsolation"; Azure accepts "OCIContainer", "WasmWasi", "KataVmIsolation"',
    ],
  },
  {
    mistake: 'an enum value in another case',
    type: CLUSTER,
    args: { ...CLUSTER_ARGS, networkProfile: { networkDataplane: 'Cilium' } },
    says: ['networkProfile.networkDataplane is "Cilium"; Azure accepts "azure", "cilium"'],
  },
  {
    mistake: 'an enum value inside a list',
    type: CLUSTER,
    args: { ...CLUSTER_ARGS, agentPoolProfiles: [{ name: 'system', mode: 'Sys' }] },
    says: ['agentPoolProfiles[0].mode is "Sys"; Azure accepts "System", "User", "Gateway"'],
  },
  {
    mistake: 'a misspelt property of an object that was built before',
    type: POOL,
    args: { ...POOL_ARGS, securityProfile: misspelt },
    says: [
      'securityProfile.enableSecureBot is not a property that Azure knows; did you mean enableSecureBoot?',
    ],
  },
  {
    mistake: 'a number that came as text',
    type: POOL,
    args: { ...POOL_ARGS, osDiskSizeGB: numbered },
    says: ['osDiskSizeGB is string; Azure accepts number'],
  },
  {
    mistake: 'a boolean in a map of texts',
    type: CLUSTER,
    args: {
      ...CLUSTER_ARGS,
      addonProfiles: { azurepolicy: { enabled: true, config: { x: JSON.parse('true') } } },
    },
    says: ['addonProfiles.azurepolicy.config.x is boolean; Azure accepts string'],
  },
  {
    mistake: 'a pool name with a hyphen',
    type: POOL,
    args: { ...POOL_ARGS, agentPoolName: 'kata-1' },
    says: ['agentPoolName is "kata-1"; Azure accepts values that match ^[a-z][a-z0-9]{0,11}$'],
  },
  {
    mistake: 'a pool name of thirteen characters',
    type: POOL,
    args: { ...POOL_ARGS, agentPoolName: 'kata123456789' },
    says: [
      'agentPoolName is "kata123456789"; Azure accepts at most 12 characters',
      'agentPoolName is "kata123456789"; Azure accepts values that match ^[a-z][a-z0-9]{0,11}$',
    ],
  },
  {
    mistake: 'the name of an inline pool in capitals',
    type: CLUSTER,
    args: { ...CLUSTER_ARGS, agentPoolProfiles: [{ name: 'System', mode: 'System' }] },
    says: ['agentPoolProfiles[0].name is "System"; Azure accepts values that match ^[a-z][a-z0-9]{0,11}$'],
  },
  {
    mistake: 'an invalid range',
    type: CLUSTER,
    args: { ...CLUSTER_ARGS, networkProfile: { podCidr: '10.244.0.0/33' } },
    says: [
      expect.stringMatching(
        /^networkProfile\.podCidr is "10\.244\.0\.0\/33"; Azure accepts values that match /,
      ) as string,
    ],
  },
  {
    mistake: 'an invalid address',
    type: CLUSTER,
    args: { ...CLUSTER_ARGS, networkProfile: { dnsServiceIP: '10.0.0.300' } },
    says: [
      expect.stringMatching(
        /^networkProfile\.dnsServiceIP is "10\.0\.0\.300"; Azure accepts values that match /,
      ) as string,
    ],
  },
  {
    mistake: 'a disk beyond the largest',
    type: POOL,
    args: { ...POOL_ARGS, osDiskSizeGB: 4096 },
    says: ['osDiskSizeGB is 4096; Azure accepts at most 2048'],
  },
  {
    mistake: 'a wait below the shortest',
    type: POOL,
    args: { ...POOL_ARGS, upgradeSettings: { drainTimeoutInMinutes: 0 } },
    says: ['upgradeSettings.drainTimeoutInMinutes is 0; Azure accepts at least 1'],
  },
]

/** The compiler rejects these mistakes wherever it checks the types; the mocks record them anyway. */
const REFUSED_BY_TYPES: readonly Planted[] = [
  {
    mistake: 'a nested object without its name',
    type: CLUSTER,
    // @ts-expect-error name is missing
    args: { ...CLUSTER_ARGS, agentPoolProfiles: [{ mode: 'System' }] },
    says: ['agentPoolProfiles[0].name is missing; Azure requires it'],
  },
  {
    mistake: 'a property of another version of the API',
    type: CLUSTER,
    // @ts-expect-error gatewayAPI is not in the default version
    args: { ...CLUSTER_ARGS, ingressProfile: { gatewayAPI: { installation: 'Standard' } } },
    says: ['ingressProfile.gatewayAPI is not a property that Azure knows; it knows webAppRouting'],
  },
  {
    mistake: 'a map where a list is asked for',
    type: CLUSTER,
    // @ts-expect-error version 2 of the SDK took a map
    args: { ...CLUSTER_ARGS, identity: { userAssignedIdentities: { '/a/b': {} }, type: 'UserAssigned' } },
    says: ['identity.userAssignedIdentities is object; Azure accepts array'],
  },
  {
    mistake: 'a value of a closed enum',
    type: CLUSTER,
    // @ts-expect-error the one kind of enum that the types close
    args: { ...CLUSTER_ARGS, identity: { type: 'Owner' } },
    says: ['identity.type is "Owner"; Azure accepts "SystemAssigned", "UserAssigned", "None"'],
  },
]

describe('mistakes that the mocks of the SDK accept, and mostly its types too', () => {
  const recorded: { type: string; name: string; inputs: object }[] = []
  let sdk: typeof import('@pulumi/azure-native/containerservice/index.js')

  beforeAll(async () => {
    await pulumi.runtime.setMocks({
      newResource: ({ type, name, inputs }) => {
        recorded.push({ type, name, inputs: inputs as object })
        return { id: `${name}-id`, state: inputs as object }
      },
      call: ({ inputs }) => inputs,
    })
    sdk = await import('@pulumi/azure-native/containerservice/index.js')
  })

  test.each([...ACCEPTED_BY_TYPES_AND_MOCKS, ...REFUSED_BY_TYPES])(
    'rejects $mistake by name',
    async ({ mistake, type, args, says }) => {
      const made =
        type === POOL
          ? new sdk.AgentPool(mistake, args as AgentPoolArgs)
          : new sdk.ManagedCluster(mistake, args as ManagedClusterArgs)
      await new Promise((resolve) => made.id.apply(resolve))
      const seen = recorded.find(({ name }) => name === mistake)

      expect(seen?.inputs).toMatchObject(JSON.parse(JSON.stringify(args)))
      expect(problems(type, seen?.inputs ?? {})).toEqual(says)
    },
  )

  test('a misspelt top-level property, which the types ignore, is missing from the plan', async () => {
    const misspeltAtTop = { ...POOL_ARGS, osSku: 'AzureLinux' }
    const made = new sdk.AgentPool('at-the-top', misspeltAtTop)
    await new Promise((resolve) => made.id.apply(resolve))

    expect(recorded.find(({ name }) => name === 'at-the-top')?.inputs).not.toHaveProperty('osSku')
    expect(problems(POOL, misspeltAtTop)).toEqual([
      'osSku is not a property that Azure knows; did you mean osSKU?',
    ])
  })

  test('the SDK itself rejects only a missing name', () => {
    const { resourceName: _, ...nameless } = POOL_ARGS

    // @ts-expect-error the types refuse it too
    expect(() => new sdk.AgentPool('nameless', nameless)).toThrow("Missing required property 'resourceName'")
    expect(problems(POOL, nameless)).toEqual(['resourceName is missing; Azure requires it'])
  })
})
