import { validate, version } from 'uuid'
import { expect, it } from 'vitest'
import { timeOrderedId } from '../../runtime/api/runs/ids.ts'

const DASHED = /^(.{8})(.{4})(.{4})(.{4})(.{12})$/

it('makes ids that are UUIDs of version 7 with a prefix, without dashes', () => {
  const [prefix, hex = ''] = timeOrderedId('run', new Date(0)).split('_')
  const uuid = hex.replace(DASHED, '$1-$2-$3-$4-$5')

  expect(prefix).toBe('run')
  expect(validate(uuid)).toBe(true)
  expect(version(uuid)).toBe(7)
})

it('makes ids that sort by the given time, also if the clock goes back', () => {
  const times = [1_800_000_000_002, 1_800_000_000_000, 1_800_000_000_001]
  const ids = times.map((ms) => ({ ms, id: timeOrderedId('run', new Date(ms)) }))
  const sorted = ids.sort((a, b) => (a.id < b.id ? -1 : 1)).map(({ ms }) => ms)

  expect(sorted).toEqual([1_800_000_000_000, 1_800_000_000_001, 1_800_000_000_002])
})

it('makes a different id each time within a millisecond', () => {
  const now = new Date()
  const ids = Array.from({ length: 1000 }, () => timeOrderedId('run', now))

  expect(new Set(ids).size).toBe(1000)
})
