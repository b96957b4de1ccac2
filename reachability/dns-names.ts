import * as z from 'zod'

/** A name or name pattern, as in `toFQDNs` and `rules.dns`. */
export const NameSelector = z.strictObject({
  matchName: z.string().optional(),
  matchPattern: z.string().optional(),
})
export type NameSelector = z.infer<typeof NameSelector>

const MAX_NAME_LENGTH = 255
const LABEL_CHARACTER = '[-a-z0-9_]'

/** Returns the reason why the agent rejects this selector, or undefined. */
export function nameFault({ matchName = '', matchPattern = '' }: NameSelector): string | undefined {
  if (matchName !== '' && matchPattern !== '') return 'has both matchName and matchPattern'
  if (matchName !== '' && !/^[-a-zA-Z0-9_.]+$/.test(matchName))
    return `"${matchName}" has characters that no name has`
  if (matchPattern !== '' && !/^[-a-zA-Z0-9_.*]+$/.test(matchPattern))
    return `"${matchPattern}" has characters that no pattern has`
  if (Math.max(matchName.length, matchPattern.length) > MAX_NAME_LENGTH) return 'is longer than a name may be'
  return undefined
}

/**
 * Returns a function that checks whether a name matches one of the selectors. `*` stands for characters inside one
 * label, a leading `**.` for one or more whole labels, and a pattern of only `*` for every name.
 */
export function nameMatcher(selectors: readonly NameSelector[]): (name: string) => boolean {
  const patterns = selectors.map(patternOf)
  return (name) => patterns.some((pattern) => pattern.test(absolute(name)))
}

const absolute = (name: string) => `${name.toLowerCase().replace(/\.$/, '')}.`

function patternOf({ matchName = '', matchPattern = '' }: NameSelector): RegExp {
  const text = matchName === '' ? matchPattern : matchName
  // An empty regular expression would match everything, but an empty selector must match nothing.
  if (text === '') return /(?!)/
  if (/^\*+\.?$/.test(text)) return /^/
  const [subdomains = ''] = /^\*{2,}\./.exec(absolute(text)) ?? []
  const head = subdomains === '' ? '' : `(?:${LABEL_CHARACTER}+[.])+`
  const tail = absolute(text)
    .slice(subdomains.length)
    .replace(/\./g, '[.]')
    .replace(/\*+/g, `${LABEL_CHARACTER}*`)
  return new RegExp(`^${head}${tail}$`)
}
