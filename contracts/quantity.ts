const SUFFIXES: Readonly<Record<string, number>> = {
  '': 1,
  m: 1e-3,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
}

/** Converts a Kubernetes quantity to a number in the resource's own unit: cores, bytes or items. */
export function parseQuantity(value: unknown): number | undefined {
  if (typeof value === 'number') return value
  if (typeof value !== 'string') return undefined
  const [, digits, suffix = ''] = /^(\d{1,15}(?:\.\d{1,9})?)([A-Za-z]*)$/.exec(value) ?? []
  const factor = SUFFIXES[suffix]
  // Rounded to thousandths, so that floating-point sums of tenths do not come out too low.
  return digits === undefined || factor === undefined
    ? undefined
    : Math.round(Number(digits) * factor * 1000) / 1000
}
