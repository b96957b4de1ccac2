import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { identityOf, isAlive } from '../host/process-identity.ts'

/** Outside the clone, so a new clone on the same machine uses the programs that another clone has built. */
export function cacheRoot(env: NodeJS.ProcessEnv = process.env): string {
  return join(env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'agentweaver-sandbox', 'kube')
}

const SCRATCH = /^scratch-(\d+)-(\d+)$/

/**
 * Creates a folder for one build. Its name contains its owner's process, so that a later build can remove it after a
 * crash.
 */
export function makeScratch(root: string): string {
  const folder = join(root, `scratch-${process.pid}-${identityOf(process.pid)?.startTicks}`)
  mkdirSync(folder, { recursive: true })
  return folder
}

/** Deletes the scratch folders of crashed builds, which can hold gigabytes. */
export function clearDeadScratch(root: string): void {
  if (!existsSync(root)) return
  for (const name of readdirSync(root)) {
    const match = SCRATCH.exec(name)
    if (match && !isAlive({ pid: Number(match[1]), startTicks: match[2] ?? '' })) {
      rmSync(join(root, name), { recursive: true, force: true })
    }
  }
}

type Durations = Record<string, number>

/** Seconds that the last cold build of each module took on this machine. */
export function readDurations(root: string): Durations {
  try {
    return JSON.parse(readFileSync(join(root, 'durations.json'), 'utf8')) as Durations
  } catch {
    return {}
  }
}

export function recordDuration(root: string, name: string, seconds: number): void {
  writeFileSync(join(root, 'durations.json'), JSON.stringify({ ...readDurations(root), [name]: seconds }))
}
