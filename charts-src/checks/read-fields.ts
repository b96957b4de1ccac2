/** Reads a field of an untyped object. Returns undefined when any part of the path is missing. */
export function fieldAt(value: unknown, ...path: readonly string[]): unknown {
  return path.reduce<unknown>((found, key) => (isRecord(found) ? found[key] : undefined), value)
}

export function listAt(value: unknown, ...path: readonly string[]): readonly unknown[] {
  const found = fieldAt(value, ...path)
  return Array.isArray(found) ? found : []
}

export function recordAt(value: unknown, ...path: readonly string[]): Readonly<Record<string, unknown>> {
  const found = fieldAt(value, ...path)
  return isRecord(found) ? found : {}
}

export function textAt(value: unknown, ...path: readonly string[]): string | undefined {
  const found = fieldAt(value, ...path)
  return typeof found === 'string' ? found : undefined
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
