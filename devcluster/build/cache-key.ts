import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type ModuleName, TOOL_MODULES } from './modules.ts'

/** Build settings, part of every cache key. Raise `BUILD_REVISION` if code in this folder changes build results. */
export const GO_BUILD_ENV = {
  CGO_ENABLED: '0',
  GOFLAGS: '-trimpath -buildvcs=false',
  GOTOOLCHAIN: 'local',
} as const

const BUILD_REVISION = 1

export function moduleFolder(name: ModuleName): string {
  return join(import.meta.dirname, '..', 'tools', name)
}

/** Returns the name of a build's result. The same sources, flags and compiler give the same name on every machine. */
export function cacheKey(name: ModuleName, goVersion: string): string {
  const hash = createHash('sha256')
  const { packages, ldflags, links, shared } = TOOL_MODULES[name]
  hash.update(JSON.stringify([BUILD_REVISION, GO_BUILD_ENV, goVersion, packages, ldflags, links, shared]))
  const folder = moduleFolder(name)
  for (const file of sourceFiles(folder)) {
    hash.update(`\0${file}\0`)
    hash.update(readFileSync(join(folder, file)))
  }
  return `${name}-${hash.digest('hex').slice(0, 20)}`
}

function sourceFiles(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .sort()
}
