import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  ALL_PORTS,
  formatPorts,
  hasPorts,
  intersect,
  type PortRange,
  type PortSet,
  portSet,
  samePorts,
  subtract,
  unite,
} from '../../reachability/port-set.ts'

const port = fc.integer({ min: 1, max: 20 })
const ranges = fc.array(
  fc.tuple(port, port).map(([a, b]): PortRange => [Math.min(a, b), Math.max(a, b)]),
  { maxLength: 4 },
)
const set = fc.oneof(
  fc.constant(ALL_PORTS),
  fc.constant(unite([])),
  ranges.map((TCP) => portSet({ TCP })),
)
const has = ({ TCP }: PortSet, wanted: number) =>
  TCP.some(([first, last]) => first <= wanted && wanted <= last)

describe('port sets', () => {
  it('unite, intersect and subtract port by port', () => {
    fc.assert(
      fc.property(set, set, port, (a, b, one) => {
        expect(has(unite([a, b]), one)).toBe(has(a, one) || has(b, one))
        expect(has(intersect(a, b), one)).toBe(has(a, one) && has(b, one))
        expect(has(subtract(a, b), one)).toBe(has(a, one) && !has(b, one))
      }),
      { numRuns: 1000 },
    )
  })

  it('are equal exactly if they contain the same ports', () => {
    fc.assert(
      fc.property(set, set, (a, b) => {
        const everyPort = Array.from({ length: 21 }, (_, index) => index + 1)

        const isSame =
          everyPort.every((one) => has(a, one) === has(b, one)) && (a === ALL_PORTS) === (b === ALL_PORTS)
        expect(samePorts(a, b)).toBe(isSame)
        expect(hasPorts(a)).toBe(everyPort.some((one) => has(a, one)))
      }),
      { numRuns: 1000 },
    )
  })

  it.each([
    [unite([]), ''],
    [ALL_PORTS, 'everything'],
    [portSet({ TCP: [[80, 80]] }), 'TCP 80'],
    [
      portSet({
        TCP: [
          [8089, 9000],
          [3000, 8087],
        ],
        UDP: [[53, 53]],
      }),
      'TCP 3000–8087, 8089–9000; UDP 53',
    ],
    [
      portSet({
        TCP: [
          [80, 81],
          [82, 90],
        ],
      }),
      'TCP 80–90',
    ],
    [portSet({ TCP: [[1, 65_535]] }), 'TCP (all)'],
    [portSet({ TCP: [[2, 65_535]] }), 'TCP 2–65535'],
  ])('are formatted for people', (ports, text) => {
    expect(formatPorts(ports)).toBe(text)
  })
})
