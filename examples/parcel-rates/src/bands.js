/** Weight bands of the domestic tariff, lightest first. `maxGrams` is the heaviest parcel of a band. */
export const bands = [
  { name: 'letter', maxGrams: 100, cents: 160 },
  { name: 'small', maxGrams: 500, cents: 390 },
  { name: 'medium', maxGrams: 2000, cents: 590 },
  { name: 'large', maxGrams: 10_000, cents: 1090 },
]
