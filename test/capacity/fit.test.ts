import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { capacityReport } from '../../charts-src/capacity/capacity-report.ts'
import { fitInAll, fitPerNode } from '../../charts-src/capacity/fit.ts'
import type { Environment } from '../../charts-src/environment/schema.ts'
import { anEnvironment, ENVIRONMENTS, type Loose } from '../charts/fixture.ts'
import { processorMs } from '../helpers/processor-time.ts'

/** One node with 10 CPUs and 20 GiB for sandboxes of 1 CPU and 1.25 GiB. No other limit binds. */
function aRoomyEnvironment(change: (environment: Loose) => void = () => undefined): Environment {
  const environment = structuredClone(anEnvironment('prod')) as Loose
  const container = { cpuMillis: 500, maxCpuMillis: 500, memoryMib: 512, ephemeralMib: 16 }
  const volumes = { workspaceMib: 16, tmpMib: 16, homeMib: 16 }
  const pool = { warm: { owner: 'tree', replicas: 0 }, agentHost: container, toolbox: container, volumes }
  Object.assign(environment['sizes'].sandboxes, {
    agent: structuredClone(pool),
    command: structuredClone(pool),
    overhead: { cpuMillis: 0, memoryMib: 256 },
    quota: {
      pods: 1e6,
      cpuMillis: 1e9,
      maxCpuMillis: 1e9,
      memoryMib: 1e9,
      ephemeralMib: 1e9,
      claims: 1e6,
    },
  })
  environment['sizes'].runs.maxRuns = 1e6
  Object.assign(environment['infra'].sandboxNodes, {
    max: 1,
    cpuMillis: 10_500,
    memoryMib: 20_580,
    ephemeralMib: 1_000_000,
    pods: 110,
    daemons: { cpuMillis: 500, memoryMib: 100, pods: 10 },
  })
  change(environment)
  return environment as Environment
}

const first = ({ limits }: ReturnType<typeof fitInAll>) => limits[0]

describe('the limit that binds first', () => {
  test.each<[string, number, (environment: Loose) => void]>([
    ['infra.sandboxNodes.cpuMillis', 10, () => undefined],
    [
      'infra.sandboxNodes.memoryMib',
      4,
      ({ infra }) => Object.assign(infra.sandboxNodes, { memoryMib: 5220 }),
    ],
    [
      'infra.sandboxNodes.ephemeralMib',
      3,
      ({ infra }) => Object.assign(infra.sandboxNodes, { ephemeralMib: 350 }),
    ],
    ['infra.sandboxNodes.pods', 5, ({ infra }) => Object.assign(infra.sandboxNodes, { pods: 15 })],
    ['infra.network.nodePodBits', 2, ({ infra }) => Object.assign(infra.network, { nodePodBits: 28 })],
    ['sizes.sandboxes.quota.pods', 7, ({ sizes }) => Object.assign(sizes.sandboxes.quota, { pods: 7 })],
    ['sizes.sandboxes.quota.claims', 6, ({ sizes }) => Object.assign(sizes.sandboxes.quota, { claims: 6 })],
    [
      'sizes.sandboxes.quota.cpuMillis',
      3,
      ({ sizes }) => Object.assign(sizes.sandboxes.quota, { cpuMillis: 3999 }),
    ],
    [
      'sizes.sandboxes.quota.maxCpuMillis',
      4,
      ({ sizes }) => Object.assign(sizes.sandboxes.quota, { maxCpuMillis: 4000 }),
    ],
    [
      'sizes.sandboxes.quota.memoryMib',
      1,
      ({ sizes }) => Object.assign(sizes.sandboxes.quota, { memoryMib: 2559 }),
    ],
    [
      'sizes.sandboxes.quota.ephemeralMib',
      2,
      ({ sizes }) => Object.assign(sizes.sandboxes.quota, { ephemeralMib: 230 }),
    ],
    ['sizes.runs.maxRuns', 8, ({ sizes }) => Object.assign(sizes.runs, { maxRuns: 8 })],
  ])('is %s, which permits %i', (key, sandboxes, change) => {
    const environment = aRoomyEnvironment(change)

    const fit = fitInAll(environment, 'agent')

    expect(first(fit)).toMatchObject({ key, sandboxes })
    expect(fit.sandboxes).toBe(sandboxes)
  })

  test('includes the overhead of the runtime class', () => {
    const bindsOnMemory = (overhead: number) =>
      aRoomyEnvironment(({ infra, sizes }) => {
        infra.sandboxNodes.memoryMib = 10_340
        sizes.sandboxes.overhead.memoryMib = overhead
      })

    expect(fitInAll(bindsOnMemory(0), 'agent').sandboxes).toBe(10)
    expect(fitInAll(bindsOnMemory(256), 'agent').sandboxes).toBe(8)
    expect(fitPerNode(bindsOnMemory(256), 'agent')).toMatchObject({
      sandboxes: 8,
      limits: [{ name: 'memory' }, {}, {}, {}, {}],
    })
  })

  test('is the address ranges if they have room for fewer nodes than the pool', () => {
    const environment = aRoomyEnvironment(({ infra }) => {
      infra.sandboxNodes.max = 20
      infra.network.podCidrs = ['10.244.0.0/23', 'fd00::/64']
      infra.network.nodeCidrs = ['10.60.0.0/28']
    })

    const { limits } = fitInAll(environment, 'agent')

    expect(limits[0]).toEqual({
      name: 'range of pod addresses',
      key: 'infra.network.podCidrs',
      sandboxes: 20,
    })
    expect(limits[1]).toEqual({
      name: 'range of node addresses',
      key: 'infra.network.nodeCidrs',
      sandboxes: 110,
    })
  })

  test('leaves room for the warm pools of both classes', () => {
    const environment = aRoomyEnvironment(({ sizes }) => {
      sizes.sandboxes.agent.warm.replicas = 2
      sizes.sandboxes.command.warm = { owner: 'autoscaler', max: 3 }
    })

    expect(fitInAll(environment, 'agent').sandboxes).toBe(5)
    expect(fitPerNode(environment, 'agent').sandboxes).toBe(10)
  })

  test('is nothing if the warm pools alone do not fit', () => {
    const environment = aRoomyEnvironment(({ sizes }) => {
      sizes.sandboxes.agent.warm.replicas = 11
    })

    expect(fitInAll(environment, 'agent').sandboxes).toBe(0)
  })

  test('never permits more sandboxes when a value becomes smaller', () => {
    const resource = fc.constantFrom('cpuMillis', 'memoryMib', 'ephemeralMib', 'pods', 'max')
    fc.assert(
      fc.property(resource, fc.double({ min: 0.1, max: 1, noNaN: true }), (name, share) => {
        const whole = anEnvironment('prod')
        const shrunk = structuredClone(whole) as Loose
        shrunk['infra'].sandboxNodes[name] = Math.max(1, Math.floor(whole.infra.sandboxNodes[name] * share))
        const inAll = (environment: Environment) =>
          fitInAll(environment, 'agent').limits.find(
            ({ name: limit }) => limit === 'nodes: all of it together',
          )

        expect(inAll(shrunk as Environment)?.sandboxes).toBeLessThanOrEqual(inAll(whole)?.sandboxes ?? 0)
      }),
      { numRuns: 50 },
    )
  })

  test('is found quickly for the largest pools and nodes that the schema allows', () => {
    const environment = aRoomyEnvironment(({ infra }) => {
      Object.assign(infra.sandboxNodes, {
        max: 1000,
        pods: 1000,
        cpuMillis: 1e9,
        memoryMib: 1e9,
        ephemeralMib: 1e9,
      })
      infra.network = {
        ...infra.network,
        podCidrs: ['10.0.0.0/8'],
        nodeCidrs: ['172.16.0.0/16'],
        nodePodBits: 20,
      }
    })
    const demand = { kind: 'agent', arrivalsPerHour: 1_000_000, dispersion: 20 } as const
    let warm: ReturnType<typeof capacityReport>['warm']

    const ms = processorMs(() => {
      const asked = { ...demand, replenishSeconds: 360, targetHitRatio: 0.9999 }
      warm = capacityReport(environment, asked).warm
    })

    expect(warm?.recommended).toBeGreaterThan(100_000)
    // The memory quota binds: it has room for this many sandboxes of 1280 MiB, including the warm ones.
    expect(warm?.sandboxesBeside).toBe(Math.floor(1e9 / 1280) - (warm?.recommended ?? 0))
    expect(ms).toBeLessThan(3000)
  })

  test('does not add up the remainders of two nodes', () => {
    const environment = aRoomyEnvironment(({ infra }) => {
      Object.assign(infra.sandboxNodes, { max: 2, cpuMillis: 2000 })
    })

    expect(fitInAll(environment, 'agent').sandboxes).toBe(2)
  })
})

describe('a report', () => {
  test.each(ENVIRONMENTS)('of %s holds as many claims as the quota admits', (name) => {
    const environment = anEnvironment(name)

    const { classes } = capacityReport(environment)

    for (const { inAll } of classes) {
      expect(
        inAll.limits
          .filter(({ key }) => key.startsWith('sizes.sandboxes.quota'))
          .map(({ sandboxes }) => sandboxes),
      ).toSatisfy((counts: number[]) =>
        counts.every((count) => count >= environment.sizes.sandboxes.quota.claims),
      )
    }
  })

  test('reports the number of bound sandboxes, and whether it fits together with the recommended pool', () => {
    const environment = aRoomyEnvironment()
    const demand = { kind: 'agent', dispersion: 1, replenishSeconds: 60, targetHitRatio: 0.9 } as const
    const at = (arrivalsPerHour: number) =>
      capacityReport(environment, { ...demand, arrivalsPerHour, durationMinutes: 30 })

    const quiet = at(2)
    const crowded = at(20)

    expect(quiet.warm).toMatchObject({
      configured: 0,
      configuredHitRatio: 0,
      recommended: 1,
      sandboxesBeside: 9,
    })
    expect(quiet.busy).toMatchObject({ mean: 1, most: 5, fits: true })
    expect(crowded.busy).toMatchObject({ mean: 10, fits: false })
  })
})
