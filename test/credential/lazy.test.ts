import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'

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

const packagesOf = (entry: string) =>
  [...loadedBy(join(ROOT, entry)).values()].flat().filter((specifier) => specifier.startsWith('@azure/'))

it.each([
  'agent-host/server.ts',
  'agent-host/app.ts',
  'agent-host/session/run-session.ts',
  'api/server.ts',
  'egress/cluster/server.ts',
])('loads no Azure SDK with %s', (entry) => {
  expect(packagesOf(`runtime/${entry}`)).toEqual([])
})

it('loads the SDK with the credential that needs it (control)', () => {
  expect(packagesOf('runtime/azure/azure-clients.ts')).toContain('@azure/identity')
})
