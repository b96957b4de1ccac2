import { createHash } from 'node:crypto'

/** `PreviewSlug` of `contracts/names.ts` permits 20 characters of the branch before its hash. */
const READABLE_CHARACTERS = 20
const HASH_DIGITS = 6
/** Stands for a branch that has no letter or digit of ASCII in its name. */
const UNREADABLE = 'branch'

/**
 * The slug of a branch's preview: the readable part of its name and six hexadecimal digits of the SHA-256 of the whole
 * name. A branch has the same slug on every machine. `Fix/A` and `fix-a` have the same readable part and different
 * digits. Throws for an empty name.
 */
export function previewSlug(branch: string): string {
  if (branch === '') throw new RangeError('A preview needs the name of a branch.')
  const hash = createHash('sha256').update(branch, 'utf8').digest('hex').slice(0, HASH_DIGITS)
  const readable = branch
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replace(/^-/, '')
    .slice(0, READABLE_CHARACTERS)
    .replace(/-$/, '')
  return `${readable === '' ? UNREADABLE : readable}-${hash}`
}

/** The Pulumi stack of a preview. */
export const previewStack = (slug: string): string => `pr-${slug}`
