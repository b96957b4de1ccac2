import { configure } from 'safe-stable-stringify'

const stringify = configure({ deterministic: true, strict: true })

/**
 * RFC 8785 (JSON Canonicalization Scheme): keys in the order of their UTF-16 code units, numbers and strings as
 * `JSON.stringify` writes them. Throws on cycles and on values that JSON cannot represent.
 */
export function canonicalJson(value: unknown): string {
  const text = stringify(value)
  if (text === undefined) throw new TypeError('canonical JSON cannot represent undefined')
  return text
}
