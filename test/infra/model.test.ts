import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { fitSandboxes, nodeCapacity, vcpusByFamily } from '../../infra/model/capacity.ts'
import { addressAt, contains, overlaps, parseCidr } from '../../infra/model/cidr.ts'
import { fitsAzure, globalName, roleAssignmentGuid } from '../../infra/model/naming.ts'
import { platformNames } from '../../infra/model/platform-names.ts'
import { parseVmSize } from '../../infra/model/vm-sizes.ts'

const range = (cidr: string) => {
  const parsed = parseCidr(cidr)
  if (parsed === undefined) throw new Error(cidr)
  return parsed
}

describe('ranges', () => {
  test.each([
    '10.0.0.0',
    '10.0.0.0/33',
    '10.0.0.1/24',
    '256.0.0.0/8',
    '10.0.0.0/08',
    ' 10.0.0.0/8',
    '010.0.0.0/8',
    'fd00::/8',
  ])('rejects %s', (text) => expect(parseCidr(text)).toBeUndefined())

  test('overlap and contain exactly when an address does', () => {
    const anyRange = fc
      .record({ bits: fc.integer({ min: 20, max: 30 }), at: fc.nat(63) })
      .map(({ bits, at }) => {
        const size = 2 ** (32 - bits)
        const from = 10 * 2 ** 24 + Math.floor((at * 64) / size) * size
        return range(`10.0.${Math.floor((from % 65_536) / 256)}.${from % 256}/${bits}`)
      })
    fc.assert(
      fc.property(anyRange, anyRange, (a, b) => {
        const shared = Math.min(a.to, b.to) - Math.max(a.from, b.from)
        expect(overlaps(a, b)).toBe(shared >= 0)
        expect(contains(a, b)).toBe(overlaps(a, b) && a.bits <= b.bits)
      }),
    )
  })

  test('count addresses from the first and end at the last', () => {
    expect(addressAt(range('10.0.0.0/16'), 10)).toBe('10.0.0.10')
    expect(addressAt(range('10.0.255.0/24'), 255)).toBe('10.0.255.255')
    expect(() => addressAt(range('10.0.0.0/30'), 4)).toThrow(RangeError)
  })
})

describe('names', () => {
  const part = fc.stringMatching(/^[a-z][a-z0-9]{0,20}$/)

  test('that all of Azure shares fit, keep their hash whole, and differ by subscription', () => {
    fc.assert(
      fc.property(fc.tuple(part, part), fc.tuple(fc.uuid(), fc.uuid()), ([a, b], [one, other]) => {
        const name = (salt: string) => globalName({ max: 24, parts: [a, b, 'cp'], salt })
        expect(fitsAzure('vault', name(one))).toBe(true)
        expect(name(one)).toMatch(/-[0-9a-f]{5}$/)
        if (one !== other) expect([name(one) === name(other) ? 'collides' : 'differs']).toContain('differs')
      }),
      { numRuns: 200, seed: 7 },
    )
  })

  test('of a platform fit what Azure takes, for the longest environment', () => {
    const names = platformNames({
      environment: 'abcdefgh',
      subscriptionId: '5f0a3a86-7d0f-4c5e-9a57-0d4b6c1f2e11',
      names: {},
    })

    expect(fitsAzure('vault', names.controlPlaneVault)).toBe(true)
    expect(fitsAzure('vault', names.userTokenVault)).toBe(true)
    expect(fitsAzure('registry', names.registry)).toBe(true)
    expect(fitsAzure('database', names.database)).toBe(true)
    expect(fitsAzure('nodeResourceGroup', names.nodeResourceGroup)).toBe(true)
    expect(names.controlPlaneVault).not.toBe(names.userTokenVault)
  })

  test('of role assignments are GUIDs of version 5, one for each grant and generation', () => {
    const grant = { stack: 'dev', scope: 'a', principal: 'b', role: 'c', generation: 1 }
    const guid = roleAssignmentGuid(grant)

    expect(guid).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
    expect(roleAssignmentGuid({ ...grant })).toBe(guid)
    const others = [{ scope: 'x' }, { principal: 'x' }, { role: 'x' }, { generation: 2 }, { stack: 'x' }]
    expect(new Set(others.map((other) => roleAssignmentGuid({ ...grant, ...other })).concat(guid)).size).toBe(
      6,
    )
    expect(roleAssignmentGuid({ ...grant, scope: 'a"', principal: 'b' })).not.toBe(
      roleAssignmentGuid({ ...grant, scope: 'a', principal: '"b' }),
    )
  })
})

describe('machine sizes', () => {
  test.each([
    ['Standard_D8ds_v5', { vcpus: 8, memoryMib: 32_768, isKataCapable: true, family: 'standardDDSv5Family' }],
    ['Standard_D8s_v3', { tempDiskGib: 64, isKataCapable: true }],
    ['Standard_E16ds_v5', { memoryMib: 131_072, isKataCapable: true }],
    ['Standard_D8ads_v7', { isKataCapable: true }],
    ['Standard_D8as_v4', { isKataCapable: false }],
    ['Standard_D8ps_v5', { isArm: true, isKataCapable: false }],
    ['Standard_B4ms_v2', { isBurstable: true, isKataCapable: false }],
    ['Standard_D8ds_v6', { isKataCapable: false }],
  ])('%s', (name, expected) => expect(parseVmSize(name)).toMatchObject(expected))

  test.each(['D8ds_v5', 'Standard_D8ds', 'Standard_N6_v3', 'standard_d8ds_v5'])('%s is unknown', (name) =>
    expect(parseVmSize(name)).toBeUndefined(),
  )
})

describe('capacity', () => {
  const size = parseVmSize('Standard_D8ds_v5')
  if (size === undefined) throw new Error('no size')
  const node = nodeCapacity(size, { maxPods: 110, osDiskGib: 256 })
  const daemons = { cpuMillis: 520, memoryMib: 900, pods: 9 }

  test('of a node is what AKS leaves', () => {
    expect(node).toEqual({ cpuMillis: 7820, memoryMib: 29_866, ephemeralMib: 235_929, pods: 110 })
  })

  test('says what runs out first', () => {
    expect(fitSandboxes(node, daemons, { cpuMillis: 1000, memoryMib: 2048, overheadMib: 256 })).toEqual({
      perNode: 7,
      limit: 'cpu',
    })
    expect(fitSandboxes(node, daemons, { cpuMillis: 100, memoryMib: 4096, overheadMib: 256 })).toEqual({
      perNode: 6,
      limit: 'memory',
    })
    expect(fitSandboxes(node, daemons, { cpuMillis: 10, memoryMib: 128, overheadMib: 0 }).limit).toBe('pods')
    expect(fitSandboxes(node, daemons, { cpuMillis: 9000, memoryMib: 128, overheadMib: 0 }).perNode).toBe(0)
  })

  test('counts vCPUs by family with the nodes of an upgrade', () => {
    expect(
      vcpusByFamily([
        { size: 'Standard_D4ds_v5', max: 3, surge: 1 },
        { size: 'Standard_D8ds_v5', max: 5, surge: 1 },
        { size: 'Standard_E8s_v5', max: 1, surge: 0 },
      ]),
    ).toEqual({ standardDDSv5Family: 64, standardESv5Family: 8 })
  })
})
