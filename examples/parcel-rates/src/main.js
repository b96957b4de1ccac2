import { bandOf, price } from './price.js'

const [grams, where] = process.argv.slice(2)
if (!grams) {
  console.error('usage: npm start GRAMS [island]')
  process.exit(2)
}
const parcel = { grams: Number(grams), island: where === 'island' }
console.log(`${bandOf(parcel.grams).name}: ${(price(parcel) / 100).toFixed(2)}`)
