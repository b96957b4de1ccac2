import { mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { HarnessError } from '../harness-error.ts'
import { identityOf, isAlive, type ProcessIdentity } from '../host/process-identity.ts'

const POLL_MS = 500
/** A lock without an owner file is being created, or its creator died before writing the file. */
const NAMELESS_MS = 5_000

/** Holds `folder` as a lock while `work` runs. Takes over the lock of a dead process. */
export async function withBuildLock<T>(folder: string, deps: LockDeps, work: () => Promise<T>): Promise<T> {
  await takeLock(folder, deps)
  try {
    return await work()
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

export interface LockDeps {
  readonly timeoutMs: number
  readonly say: (line: string) => void
}

async function takeLock(folder: string, { timeoutMs, say }: LockDeps): Promise<void> {
  const deadline = Date.now() + timeoutMs
  let told = false
  while (!tryLock(folder)) {
    const owner = readOwner(folder)
    if (isStale(folder, owner)) {
      setAside(folder)
      continue
    }
    if (Date.now() > deadline)
      throw new HarnessError(`another build (process ${owner?.pid}) still holds ${folder}`)
    if (!told) say(`waiting for another build (process ${owner?.pid ?? 'unknown'})`)
    told = true
    await sleep(POLL_MS)
  }
}

function tryLock(folder: string): boolean {
  try {
    mkdirSync(folder)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
  writeFileSync(join(folder, 'owner.json'), JSON.stringify(identityOf(process.pid)))
  return true
}

function readOwner(folder: string): ProcessIdentity | undefined {
  try {
    return JSON.parse(readFileSync(join(folder, 'owner.json'), 'utf8')) as ProcessIdentity
  } catch {
    return undefined
  }
}

function isStale(folder: string, owner: ProcessIdentity | undefined): boolean {
  if (owner) return !isAlive(owner)
  const made = statSync(folder, { throwIfNoEntry: false })?.mtimeMs
  return made !== undefined && Date.now() - made > NAMELESS_MS
}

/** Only one of several waiting processes can rename the folder, so only one removes it. */
function setAside(folder: string): void {
  const aside = `${folder}.stale-${process.pid}`
  try {
    renameSync(folder, aside)
    rmSync(aside, { recursive: true, force: true })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
}
