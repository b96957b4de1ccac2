/** Words that stand for a value or a type. */
const KEYWORDS = new Set(
  `none null nil true false undefined nan void any unknown never string str number int integer boolean bool bytes
   object buffer required optional redacted hidden masked empty yes no on off text secret password token`
    .split(/\s+/)
    .concat([
      'securestring',
      'char',
      'varchar',
      'uuid',
      'bearer',
      'basic',
      'self',
      'this',
      'value',
      'default',
    ]),
)

export const isKeyword = (value: string): boolean => KEYWORDS.has(value.toLowerCase())

/** Returns whether a value is a placeholder for the real one: `${NAME}`, `<your-token>`, `****`, `%s`. */
export function isPlaceholder(value: string): boolean {
  if (/^(?:\*+|x{3,}|X{3,}|\.{3,}|\u2026|-+|_+)$/.test(value)) return true
  if (/^(?:<[^<>]*>|\{\{.*\}\}|%[A-Za-z_]*%?|%\(\w+\)s|@\w+@)$/.test(value)) return true
  if (/^(?:\$\{.*\}|\$\(.*\)|#\{.*\}|\{[\w.]*\})$/.test(value)) return true
  if (isOnlyFormat(value)) return true
  return /^\$[A-Z_][A-Z0-9_]*$/.test(value) || /^\$\w*(?:pass|secret|token|key|pw)\w*$/i.test(value)
}

const MAY_BE_FORMAT = /[{%]|^(?:bearer|basic|token|digest)(?:\s|$)/i
const FORMAT = /\$\{[^{}]*\}|\{[\w.]*\}|%[sdrvq]|%\(\w+\)s/g

/** `Bearer ${token}`, `{}:{}`, `Basic %s`, `Bearer `: a scheme and format placeholders only. */
function isOnlyFormat(value: string): boolean {
  if (!MAY_BE_FORMAT.test(value)) return false
  const bare = value.replace(/^(?:bearer|basic|token|digest)(?=\s|$)/i, '')
  const rest = bare.replace(FORMAT, '')
  return (rest !== bare || bare !== value) && !/[A-Za-z0-9]/.test(rest)
}

/** Returns whether an unquoted value is code: a name with members or indexes, and not random characters. */
export const isCodePath = (value: string): boolean =>
  /^[A-Za-z_$][\w$]*[?!]?(?:(?:\.|::|->)[A-Za-z_$][\w$]*[?!]?|\[[\w$'"]*\]?)+$/.test(value) &&
  (value.match(/\d/g)?.length ?? 0) < 4

/** Returns whether a text looks random: it has letters and digits, and few repeated characters. */
export function looksRandom(text: string, leastDigits = 2): boolean {
  const digits = text.match(/\d/g)?.length ?? 0
  const distinct = new Set(text).size
  return digits >= leastDigits && digits < text.length && distinct >= Math.min(8, text.length / 2)
}
