type Replaced =
  | { readonly ok: true; readonly text: string; readonly count: number }
  | { readonly ok: false; readonly code: 'no_match' | 'not_unique'; readonly count: number }

type Replacement = { readonly old: string; readonly new: string; readonly all: boolean }

/**
 * Replaces a text that must occur exactly once, or every occurrence if `all` is set. In a file with CRLF line
 * ends, the text is also searched with CRLF, because models never write carriage returns.
 */
export function replaceText(text: string, replacement: Replacement): Replaced {
  const exact = replaceExactly(text, replacement)
  if (exact.ok || exact.count > 0 || !text.includes('\r\n')) return exact
  const toCrlf = (value: string) => value.replace(/\r?\n/g, '\r\n')
  return replaceExactly(text, { ...replacement, old: toCrlf(replacement.old), new: toCrlf(replacement.new) })
}

function replaceExactly(text: string, { old, new: replacement, all }: Replacement): Replaced {
  const pieces = text.split(old)
  const count = pieces.length - 1
  if (count === 0) return { ok: false, code: 'no_match', count }
  if (count > 1 && !all) return { ok: false, code: 'not_unique', count }
  return { ok: true, text: pieces.join(replacement), count }
}
