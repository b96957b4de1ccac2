import { bands } from './bands.js'

const ISLAND_SURCHARGE_CENTS = 450

/** The band that a parcel of this weight falls into. */
export function bandOf(grams) {
  if (!Number.isFinite(grams) || grams <= 0) throw new RangeError(`not a weight: ${grams}`)
  const band = bands.find(({ maxGrams }) => grams < maxGrams)
  if (!band) throw new RangeError(`too heavy: ${grams} g`)
  return band
}

/** Price in cents of one parcel. */
export function price({ grams, island = false }) {
  return bandOf(grams).cents + (island ? ISLAND_SURCHARGE_CENTS : 0)
}
