import { ChildProcess } from 'node:child_process'
import { createRequire, syncBuiltinESMExports } from 'node:module'
import { Server, Socket } from 'node:net'
import { afterAll, expect, vi } from 'vitest'

/**
 * Fails a test of the project `unit` that starts a process, or that listens or connects on TCP. Such a test takes
 * longer and depends on the machine; it belongs in a file with the suffix `.process.test.ts` or `.database.test.ts`.
 */
const childProcess = createRequire(import.meta.url)('node:child_process') as Record<string, unknown>

const refuse = (what: string) => () => {
  throw new Error(
    `A unit test ${what}. Name its file *.process.test.ts, or *.database.test.ts if it uses PostgreSQL.`,
  )
}

type Members = Record<string, unknown>
const originals: [object: Members, name: string, value: unknown][] = []

function replace(object: object, name: string, by: (original: (...args: unknown[]) => unknown) => unknown) {
  const members = object as Members
  const original = members[name] as (...args: unknown[]) => unknown
  originals.push([members, name, original])
  members[name] = by(original)
}

const isPath = (target: unknown): boolean => {
  const first = Array.isArray(target) ? target[0] : target
  if (typeof first === 'string') return !/^\d+$/.test(first)
  // An HTTP client sets `path` to null.
  return typeof first === 'object' && first !== null && 'path' in first && typeof first.path === 'string'
}

// The asynchronous functions share this method; each synchronous one starts its process by itself.
replace(ChildProcess.prototype, 'spawn', () => refuse('starts a process'))
for (const name of ['spawnSync', 'execSync', 'execFileSync'])
  replace(childProcess, name, () => refuse('starts a process'))
for (const [prototype, name, what] of [
  [Server.prototype, 'listen', 'listens on TCP'],
  [Socket.prototype, 'connect', 'connects over TCP'],
] as const)
  replace(
    prototype,
    name,
    (original) =>
      function (this: unknown, ...args: unknown[]) {
        return isPath(args[0]) ? original.apply(this, args) : refuse(what)()
      },
  )
syncBuiltinESMExports()

// A worker runs many files with the same modules. An import that was cut off, or a replaced clock, would fail a later file.
afterAll(async () => {
  expect(vi.isFakeTimers(), 'a test left its fake timers').toBe(false)
  await vi.dynamicImportSettled()
  for (const [object, name, value] of originals) object[name] = value
  syncBuiltinESMExports()
})
