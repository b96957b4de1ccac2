import { expect, test } from 'vitest'
import { ANY, type Detector } from '../../runtime/redaction/detector.ts'
import { TriggerTable } from '../../runtime/redaction/trigger-table.ts'

const aDetector = (...triggers: Detector['triggers'][number][]): Detector => ({
  triggers,
  detect: () => undefined,
})

test('returns exactly the detectors that each pair of ASCII characters triggers, in order', () => {
  const detectors = [
    aDetector([/[=:]/, ANY]),
    aDetector([/@/, /[A-Za-z0-9]/], [/[a-z]/, /@/]),
    aDetector([/:/, /[0-9A-Fa-f:]/], [/[:;]/, /[0-9]/]),
    aDetector([/\0/, /\0/]),
  ]

  const table = new TriggerTable(detectors)

  for (let first = 0; first < 128; first++) {
    for (let second = 0; second < 128; second++) {
      const pair = String.fromCharCode(first, second)
      const wanted = detectors.filter(({ triggers }) =>
        triggers.some(([a, b]) => a.test(pair.charAt(0)) && b.test(pair.charAt(1))),
      )
      expect(table.detectorsAt(pair, 0)).toEqual(wanted)
      expect(table.next(pair, 0, 2)).toBe(wanted.length > 0 ? 0 : 1)
    }
    const canBegin = detectors.some(({ triggers }) =>
      triggers.some(([a]) => a.test(String.fromCharCode(first))),
    )
    expect(table.canBegin(first)).toBe(canBegin)
  }
})
