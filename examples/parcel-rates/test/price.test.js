import assert from 'node:assert/strict'
import { test } from 'node:test'
import { bandOf, price } from '../src/price.js'

test('a parcel inside a band costs what the band costs', () => {
  assert.equal(price({ grams: 350 }), 390)
})

test('a parcel of exactly the limit of a band still belongs to it', () => {
  assert.equal(bandOf(500).name, 'small')
  assert.equal(bandOf(10_000).name, 'large')
})

test('an island adds a surcharge', () => {
  assert.equal(price({ grams: 1200, island: true }), 1040)
})

test('a parcel that no band takes is refused', () => {
  assert.throws(() => price({ grams: 10_001 }), /too heavy/)
})

test('nonsense is not a weight', () => {
  for (const grams of [0, -1, Number.NaN, Number.POSITIVE_INFINITY])
    assert.throws(() => bandOf(grams), /not a weight/)
})
