import { deriveKey } from '../../kit/derive-key.ts'

/** The part of a credential that programs check: how it begins, and how long it is. */
export interface Shape {
  readonly prefix: string
  readonly length: number
}

/** How tokens of well-known services begin. Programs refuse a token that begins otherwise. */
const PREFIX = /^(?:gh[opsur]_|github_pat_|glpat-|npm_|pypi-|sk-(?:ant-|proj-)?)/
const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'
/** Larger bytes are dropped, so that each letter is equally likely. */
const FAIR = 256 - (256 % LETTERS.length)

export const shapeOf = (value: string): Shape => ({
  prefix: PREFIX.exec(value)?.[0] ?? '',
  length: value.length,
})

export interface PlaceholderFor {
  readonly runId: string
  readonly caller: string
  readonly credential: string
}

/**
 * What a run holds instead of a credential. It depends on the run, not on its sandbox: a run that continues in another
 * sandbox keeps it, and a fork, which is another run, cannot use it.
 */
export function placeholderOf(
  key: Uint8Array,
  { runId, caller, credential }: PlaceholderFor,
  { prefix, length }: Shape,
): string {
  let text = prefix
  for (let block = 0; text.length < length; block++)
    text += lettersOf(deriveKey(key, 'placeholder', runId, caller, credential, String(block)))
  return text.slice(0, length)
}

const lettersOf = (bytes: Uint8Array): string =>
  [...bytes].flatMap((byte) => (byte < FAIR ? [LETTERS[byte % LETTERS.length]] : [])).join('')
