import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
/** Imports that are carried out when a module loads: neither types alone, nor `import()`. */
const STATIC = /^(?:import|export)\s+(?!type\b)[^'";]*?from\s*['"]([^'"]+)['"]/gm

/** The modules that a module loads, directly and indirectly. */
function loadedBy(file: string, seen = new Map<string, string[]>()): Map<string, string[]> {
  if (seen.has(file)) return seen
  const specifiers = [...readFileSync(file, 'utf8').matchAll(STATIC)].map(([, specifier = '']) => specifier)
  seen.set(file, specifiers)
  for (const specifier of specifiers) {
    if (specifier.startsWith('.')) loadedBy(join(dirname(file), specifier), seen)
  }
  return seen
}

/** The imports of a source file, and of all files that it loads, that begin with a prefix. */
export const packagesOf = (entry: string, prefix: string): string[] =>
  [...loadedBy(join(ROOT, entry)).values()].flat().filter((specifier) => specifier.startsWith(prefix))
