import { describe, expect, it } from 'vitest'
import { SandboxSettings } from '../../contracts/policy.ts'
import { hasHost, intersectHosts, narrow } from '../../policies/agent/egress/narrow.ts'
import { tighten, widenings } from '../../policies/agent/tighten.ts'

describe('lists of hosts', () => {
  it.each([
    [['a.example.com'], ['a.example.com', 'b.example.com'], ['a.example.com']],
    [['*.example.com'], ['a.example.com', 'example.com', 'x.a.example.com'], ['a.example.com']],
    [['a.example.com'], ['*.example.com'], ['a.example.com']],
    [['*.example.com'], ['*.example.com'], ['*.example.com']],
    [['*.example.com'], ['*.a.example.com'], []],
    [['a.example.com'], [], []],
  ])('%j and %j have %j in common', (some, others, both) => {
    expect(intersectHosts(some, others)).toEqual(both)
  })

  it('take destinations away, and never add one', () => {
    const list = [
      { host: 'a.example.com', ports: [443] },
      { host: '*.b.example.com', ports: [8443] },
    ]

    expect(narrow(list, undefined)).toEqual({ destinations: list, withheld: [] })
    expect(narrow(list, ['x.b.example.com', 'evil.example.org'])).toEqual({
      destinations: [{ host: 'x.b.example.com', ports: [8443] }],
      withheld: ['a.example.com', '*.b.example.com'],
    })
    expect(narrow(list, [])).toEqual({ destinations: [], withheld: ['a.example.com', '*.b.example.com'] })
  })

  it('are narrowed by each layer of the settings, and a wider request is named', () => {
    const ceiling = SandboxSettings.parse({ egress_hosts: ['*.example.com'] })

    expect(tighten(ceiling, {}, { egress_hosts: ['a.example.com', 'b.example.org'] }).egress_hosts).toEqual([
      'a.example.com',
    ])
    expect(tighten(SandboxSettings.parse({}), { egress_hosts: [] }).egress_hosts).toEqual([])
    expect(tighten(SandboxSettings.parse({}), {})).not.toHaveProperty('egress_hosts')
    expect(widenings(ceiling, { egress_hosts: ['a.example.com'] })).toEqual([])
    expect(widenings(ceiling, { egress_hosts: ['b.example.org'] })).toMatchObject([{ field: 'egress_hosts' }])
    expect(hasHost(['*.example.com'], 'example.com')).toBe(false)
  })
})
