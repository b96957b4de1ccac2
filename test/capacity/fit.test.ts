import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { fitOf } from '../../charts-src/capacity/fit.ts'
import type { Environment } from '../../charts-src/environment/schema.ts'
import { anEnvironment } from '../charts/fixture.ts'

const permits = (environment: Environment, name: string, kind: 'agent' | 'command' = 'agent') =>
  fitOf(environment, kind).limits.find((limit) => limit.name === name)?.sandboxes

/** `dev` with quotas that never bind, so that the nodes do. */
function withNodes(nodes: Partial<Environment['infra']['sandboxNodes']>, memoryMib = 256): Environment {
  const environment = structuredClone(anEnvironment('dev'))
  const endless = {
    pods: 1e9,
    claims: 1e9,
    cpuMillis: 1e9,
    maxCpuMillis: 1e9,
    memoryMib: 1e9,
    ephemeralMib: 1e9,
  }
  Object.assign(environment.sizes.sandboxes.quota, endless)
  Object.assign(environment.sizes.sandboxes.overhead, { memoryMib })
  Object.assign(environment.infra.sandboxNodes, nodes)
  return environment
}

describe('what an environment holds', () => {
  it('is counted by hand: five nodes of 7,300 millicores, less two and three warm pods', () => {
    const environment = withNodes({})

    // Each node has 7,820 - 520 = 7,300 millicores. An agent takes 1,000, a command sandbox 500: the warm ones fill 3,500
    // of the first node, which leaves 3 there, and 7 on each of the other four.
    expect(permits(environment, 'cpu of the nodes')).toBe(31)
    expect(fitOf(environment, 'agent').limits[0]?.name).toBe('cpu of the nodes')
  })

  it('counts the overhead of the runtime class against memory', () => {
    const memory = (overhead: number) =>
      permits(withNodes({ cpuMillis: 1e9 }, overhead), 'memory of the nodes')

    // 28,360 - 900 = 27,460 MiB a node: 13 of 2,048, 11 of 2,304 and 10 of 2,648, less the warm ones on the first.
    expect([memory(0), memory(256), memory(600)]).toEqual([9 + 4 * 13, 8 + 4 * 11, 6 + 4 * 10])
  })

  it.each([
    ['pods of the nodes', { pods: 20 }, 5 * (20 - 9) - 5],
    ['ephemeral storage of the nodes', { ephemeralMib: 20_000 }, 2 * 3],
  ])('is bound by the %s', (name, nodes, expected) => {
    const environment = withNodes({ cpuMillis: 1e9, memoryMib: 1e9, ...nodes })

    expect(permits(environment, name)).toBe(expected)
    expect(fitOf(environment, 'agent').limits[0]?.name).toBe(name)
  })

  it('is bound by the addresses of a node', () => {
    const environment = withNodes({ cpuMillis: 1e9, memoryMib: 1e9, ephemeralMib: 1e9, pods: 1000 })
    environment.infra.network.nodePodBits = 27

    expect(permits(environment, 'addresses of the nodes')).toBe(5 * (32 - 3 - 9) - 5)
    expect(fitOf(environment, 'agent').limits[0]?.name).toBe('addresses of the nodes')
  })

  it('is none where the warm pools alone do not fit', () => {
    const environment = withNodes({ cpuMillis: 1600, max: 1 })

    expect(fitOf(environment, 'agent').sandboxes).toBe(0)
  })

  it('never grows when anything shrinks', () => {
    const resource = fc.constantFrom('cpuMillis', 'memoryMib', 'ephemeralMib', 'pods', 'max')
    fc.assert(
      fc.property(resource, fc.double({ min: 0.1, max: 1, noNaN: true }), (name, share) => {
        const whole = withNodes({})
        const shrunk = withNodes({ [name]: Math.max(1, Math.floor(whole.infra.sandboxNodes[name] * share)) })

        expect(fitOf(shrunk, 'agent').sandboxes).toBeLessThanOrEqual(fitOf(whole, 'agent').sandboxes)
      }),
    )
  })

  it.each(['dev', 'local', 'pr-example', 'prod'] as const)(
    'is bound by the claims as committed: %s',
    (name) => {
      // A claim is then what is refused, by a clear message, and never the pod of one that was taken.
      const environment = anEnvironment(name)

      expect(fitOf(environment, 'agent').sandboxes).toBe(environment.sizes.sandboxes.quota.claims)
    },
  )
})
