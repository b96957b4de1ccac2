import * as z from 'zod'

/** A name or a pattern of names, as `toFQDNs` and `rules.dns` write it. */
export const NameSelector = z.strictObject({
  matchName: z.string().optional(),
  matchPattern: z.string().optional(),
})
export type NameSelector = z.infer<typeof NameSelector>

const MAX_NAME_LENGTH = 255
const LABEL_CHARACTER = '[-a-z0-9_]'

/** Why the agent refuses this selector, if so. */
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
 * Whether a name is one of those selected. `*` stands for characters inside one label, `**.` in front for one or
 * more whole labels, a pattern of nothing but `*` for every name.
 */
export function matchesName(selector: NameSelector, name: string): boolean {
  return patternOf(selector).test(absolute(name))
}

/** A matcher for many questions about the same selectors. */
export function nameMatcher(selectors: readonly NameSelector[]): (name: string) => boolean {
  const patterns = selectors.map(patternOf)
  return (name) => patterns.some((pattern) => pattern.test(absolute(name)))
}

const absolute = (name: string) => `${name.toLowerCase().replace(/\.$/, '')}.`

function patternOf({ matchName = '', matchPattern = '' }: NameSelector): RegExp {
  const text = matchName === '' ? matchPattern : matchName
  // What selects nothing at all must not become the empty expression, which matches everything.
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
