import { expect, test } from 'vitest'
import {
  differences,
  overlay,
  plain,
  readable,
  secret,
  simplified,
  UNKNOWN,
  valueAt,
  withValueAt,
} from '../fakes/pulumi/values.ts'

const output = (fields: object) => ({
  '4dabf18193072939515e22adb298388d': 'd0e6a833031e9bbcd3f4e8bde6ca49a4',
  ...fields,
})

test('names what changed by path, with keys that hold dots in quotes', () => {
  const old = { a: { b: [1, 2] }, tags: { 'x.io/y': '1' }, gone: true }
  const next = { a: { b: [1, 3, 4] }, tags: { 'x.io/y': '2' }, come: true }

  const found = differences(old, next)

  expect(Object.fromEntries(found)).toEqual({
    'a.b[1]': 'update',
    'a.b[2]': 'add',
    come: 'add',
    gone: 'delete',
    'tags["x.io/y"]': 'update',
  })
  expect(valueAt(next, 'tags["x.io/y"]')).toBe('2')
  expect(withValueAt(next, 'tags["x.io/y"]', undefined)).toEqual({ ...next, tags: {} })
  expect(withValueAt(next, 'a.b[0]', 9)).toMatchObject({ a: { b: [9, 3, 4] } })
})

test('reads output values as the older forms, and takes marks off only when asked', () => {
  const value = {
    open: output({ value: 1 }),
    later: output({}),
    hidden: output({ value: 'canary', secret: true }),
  }

  expect(simplified(value)).toEqual({ open: 1, later: UNKNOWN, hidden: secret('canary') })
  expect(plain(value)).toEqual({ open: 1, later: UNKNOWN, hidden: 'canary' })
  expect(JSON.stringify(readable(simplified(value)))).not.toContain('canary')
})

test('lays one value over another without losing what only one of them has', () => {
  expect(overlay({ a: { b: 1, c: [1] } }, { a: { c: [2, 3] }, d: 4 })).toEqual({
    a: { b: 1, c: [2, 3] },
    d: 4,
  })
})
