/**
 * Completes `package-lock.json` with the optional platform packages that npm left out.
 *
 * npm silently omits an optional package that the registry in use does not serve, and `npm ci` then refuses
 * the lock file on every machine. The parent pins these packages exactly, so their entries are known. Run
 * after every `npm install` that changes a dependency: `node tools/complete-lock.ts`.
 */
import { readFileSync, writeFileSync } from 'node:fs'

type Entry = {
  version?: string
  optional?: boolean
  dev?: boolean
  os?: string[]
  cpu?: string[]
  libc?: string[]
  optionalDependencies?: Record<string, string>
}
type Lock = { packages: Record<string, Entry> }

const platforms = [
  'linux',
  'darwin',
  'win32',
  'android',
  'freebsd',
  'openbsd',
  'netbsd',
  'openharmony',
  'sunos',
  'aix',
  'wasi',
]
const cpus = ['x64', 'arm64', 'arm', 'ia32', 'riscv64', 'ppc64', 's390x', 'loong64', 'mips64el', 'wasm32']

/**
 * The target that the name of a platform package contains: `linuxmusl-x64`, `linux-arm-gnueabihf`, `linux-x64-musl`.
 */
function target(name: string): Pick<Entry, 'os' | 'cpu' | 'libc'> {
  const words = name.replace('linuxmusl', 'linux-musl').split(/[-/]/)
  const os = platforms.filter((word) => words.includes(word))
  const cpu = cpus.filter((word) => words.includes(word))
  const libc = words.includes('musl') || words.includes('musleabihf') ? ['musl'] : []
  return { ...(cpu.length && { cpu }), ...(libc.length && { libc }), ...(os.length && { os }) }
}

const path = new URL('../package-lock.json', import.meta.url)
const lock = JSON.parse(readFileSync(path, 'utf8')) as Lock
for (const entry of Object.values(lock.packages)) {
  for (const [name, version] of Object.entries(entry.optionalDependencies ?? {})) {
    const key = `node_modules/${name}`
    if (lock.packages[key] || !/^\d/.test(version)) continue
    lock.packages[key] = { version, ...(entry.dev && { dev: true }), ...target(name), optional: true }
  }
}
lock.packages = Object.fromEntries(Object.entries(lock.packages).sort(([a], [b]) => (a < b ? -1 : 1)))
writeFileSync(path, `${JSON.stringify(lock, null, 2)}\n`)
