type Preference = { readonly quality: number; readonly specificity: number }

const NOT_NAMED: Preference = { quality: 0, specificity: 0 }

/**
 * Whether an `Accept` header (RFC 9110) prefers a media type to the default of a route. Of two types with the same
 * quality, the one that the header names more precisely is preferred, then the default.
 */
export function isPreferred(wanted: string, normal: string, accept: string | undefined): boolean {
  const ranges = (accept ?? '*/*').split(',').map(parseRange)
  const [a, b] = [preferenceOf(wanted, ranges), preferenceOf(normal, ranges)]
  if (a.quality !== b.quality) return a.quality > b.quality
  return a.quality > 0 && a.specificity > b.specificity
}

type Range = { readonly type: string; readonly quality: number }

function parseRange(text: string): Range {
  const [type = '', ...parameters] = text.split(';').map((part) => part.trim().toLowerCase())
  const weight = parameters.find((parameter) => parameter.startsWith('q='))
  const quality = weight === undefined ? 1 : Number(weight.slice(2))
  return { type, quality: quality >= 0 && quality <= 1 ? quality : 0 }
}

/** The most specific range that contains the type decides. */
function preferenceOf(type: string, ranges: readonly Range[]): Preference {
  const patterns = ['*/*', `${type.split('/')[0]}/*`, type]
  return ranges
    .map((range) => ({ quality: range.quality, specificity: patterns.indexOf(range.type) + 1 }))
    .reduce((best, next) => (next.specificity > best.specificity ? next : best), NOT_NAMED)
}
