import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { EgressAnomaly } from '../../contracts/egress.ts'
import { loadEgressPolicy } from '../../policies/agent/egress/load.ts'
import { PRESET_NAMES } from '../../policies/agent/egress/presets.ts'
import { ANOMALY_LIMITS, AnomalyDetector, looksRandom, periodOf } from '../../runtime/egress/anomalies.ts'

const HOST = 'api.example.com'

function rig() {
  const clock = { now: 1_000_000 }
  const found: EgressAnomaly[] = []
  const detector = new AnomalyDetector({ now: () => clock.now, report: (one) => found.push(one) })
  /** Reaches a host after each of the pauses. */
  const reach = (pausesMs: readonly number[], host = HOST) => {
    for (const ms of pausesMs) {
      clock.now += ms
      detector.reached(host, 443)
      detector.named(host)
    }
  }
  return { detector, found, clock, reach }
}

const times = <T>(count: number, pause: (index: number) => T) =>
  Array.from({ length: count }, (_, index) => pause(index))

/** Numbers between 0 and 1 that are the same in every run. */
function numbers(seed: number): () => number {
  let index = 0
  return () => {
    index += 1
    return createHash('sha256').update(`${seed} ${index}`).digest().readUInt32BE() / 2 ** 32
  }
}

const hexOf = (index: number) => createHash('sha256').update(String(index)).digest('hex')

describe('connections at regular intervals', () => {
  it('are reported with their period, also if it varies a little', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 5_500, max: 3_000_000 }),
        fc.array(fc.double({ min: -0.07, max: 0.07, noNaN: true }), { minLength: 25, maxLength: 25 }),
        (period, jitter) => {
          const { reach, found } = rig()
          reach(jitter.map((share) => Math.round(period * (1 + share))))
          expect(found[0]).toMatchObject({ kind: 'polling', host: HOST, port: 443, count: 21 })
          expect(found[0]?.everySeconds).toBeGreaterThan((0.9 * period) / 1000 - 1)
          expect(found[0]?.everySeconds).toBeLessThan((1.1 * period) / 1000 + 1)
        },
      ),
      { numRuns: 200 },
    )
  })

  it('are noticed by a replica that sees half of them', () => {
    const random = numbers(1)
    const { reach, found } = rig()
    let pause = 0
    const seen = times(200, () => {
      pause += 30_000
      if (random() < 0.5) return undefined
      const ms = pause
      pause = 0
      return ms
    }).filter((ms) => ms !== undefined)
    reach(seen)

    expect(found[0]).toMatchObject({ kind: 'polling', everySeconds: 30 })
    expect(found[0]?.count).toBeLessThan(60)
  })

  it('are reported once an hour, and again for another host', () => {
    const { reach, found } = rig()
    reach(times(100, () => 30_000))
    expect(found).toHaveLength(1)
    reach(times(100, () => 30_000))
    expect(found).toHaveLength(2)
    reach(
      times(30, () => 30_000),
      'other.example.com',
    )
    expect(found.map(({ host }) => host)).toEqual([HOST, HOST, 'other.example.com'])
  })

  it('are not seen in connections at random times', () => {
    const random = numbers(2)
    for (const meanMs of [5_000, 20_000, 60_000, 600_000]) {
      const { reach, found } = rig()
      reach(times(3_000, () => -Math.log(1 - random()) * meanMs))
      expect(found, `mean ${meanMs} ms`).toEqual([])
    }
  })

  it('are not seen in installations, downloads and retries', () => {
    const random = numbers(3)
    const installation = times(600, () => random() * 400)
    // The agent thinks between its commands.
    const session = times(30, () => [20_000 + random() * 240_000, ...installation]).flat()
    const steady = times(500, () => 900)
    const backOff = times(12, (index) => 1000 * 2 ** index)
    const { reach, found } = rig()
    for (const pauses of [session, steady, backOff]) reach(pauses, 'registry.npmjs.org')

    expect(found).toEqual([])
  })

  it('must fill the window', () => {
    expect(periodOf(times(ANOMALY_LIMITS.intervals, (index) => index * 60_000))).toBeUndefined()
    expect(periodOf(times(ANOMALY_LIMITS.intervals + 1, (index) => index * 60_000))).toBe(60_000)
  })
})

describe('names that look random', () => {
  it('are reported when one domain has many of them', () => {
    const encodings = [
      (index: number) => hexOf(index).slice(0, 32),
      (index: number) => `${hexOf(index).slice(0, 10)}.${hexOf(index).slice(10, 20)}`,
      (index: number) =>
        BigInt(`0x${hexOf(index)}`)
          .toString(36)
          .slice(0, 24),
      (index: number) =>
        [...Buffer.from(hexOf(index), 'hex')].map((byte) => 'abcdefghijklmnopqrstuvwxyz'[byte % 26]).join(''),
    ]
    for (const encode of encodings) {
      const { detector, found } = rig()
      for (let index = 0; index < 40; index++) detector.named(`${encode(index)}.collector-example.com`)
      expect(found, encode(0)).toMatchObject([{ kind: 'names', host: '*.collector-example.com', count: 12 }])
    }
  })

  it('are not reported if there are few of them, or the same ones again', () => {
    const { detector, found } = rig()
    for (let round = 0; round < 50; round++)
      for (let index = 0; index < 11; index++) detector.named(`${hexOf(index)}.cloud-example.com`)

    expect(found).toEqual([])
  })

  it('are not the hosts of registries, mirrors and machines', () => {
    const entries = PRESET_NAMES.map((preset) => `    - { preset: ${preset}, why: a registry }\n`).join('')
    const policy = loadEgressPolicy(
      `apiVersion: agentweaver.io/v1\nkind: EgressPolicy\nname: all\nclasses:\n  agent:\n${entries}  command: []\n`,
    )
    const presets = policy.classes.agent.map(({ host }) => host)
    const machines = times(60, (index) => [
      `ec2-52-15-${index}-13.us-east-2.compute.amazonaws.com`,
      `ip-10-0-${index}-17.eu-west-1.compute.internal-example.com`,
      `team-${index}-documentation-website.pages-example.dev`,
      `xn--80ak6aa92e${index}.example.com`,
      `deb${index}.mirror.example.org`,
      `203.0.113.${index}`,
    ]).flat()
    const { detector, found } = rig()
    expect(presets.length).toBeGreaterThan(4)
    for (const name of [...presets, ...machines]) detector.named(name)

    expect(found).toEqual([])
    for (const name of presets) expect(looksRandom(name.replaceAll(/[.-]/g, ' ')), name).toBe(false)
  })
})

it('keeps and reports a bounded number of names and times', () => {
  const { detector, found, clock } = rig()
  for (let index = 0; index < 20_000; index++) {
    clock.now += 6_000
    detector.reached(`host-${index % 500}.example.com`, index % 3)
    detector.named(`${hexOf(index)}.domain-${index % 200}.com`)
  }
  const { hosts, intervals, domains, names, reports } = ANOMALY_LIMITS

  expect(detector.size).toBeLessThanOrEqual(hosts * (intervals + 1) + domains * names + reports)
  expect(found.length).toBeLessThanOrEqual(reports)
})
