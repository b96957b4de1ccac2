import { lstatSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { errnoOf } from '../kit/errors.ts'
import { isSealOf, readSealKey, SEAL_FILE } from './folder-seal.ts'
import { Distrust, openPrivateFolder } from './private-folder.ts'

/** Where earlier versions kept their state; a project keeps its settings in a folder of this name. */
export const EARLIER_NAME = '.agentweaver'

/**
 * Entries that a service writes to its state folder. A project's `.agentweaver/` holds settings and none of these
 * entries.
 */
export const STATE_ENTRIES = [
  'store.db',
  'store.db-wal',
  'store.db-shm',
  'store.db-journal',
  'keys',
  'api-key',
]
const MARKS = ['store.db', 'keys', 'api-key']

/** Whether a service has kept its state in this folder. */
export const hasState = (folder: string): boolean => MARKS.some((name) => exists(join(folder, name)))

function exists(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) !== undefined
  } catch (error) {
    // A folder that cannot be entered is no state folder of this user.
    if (errnoOf(error) === undefined) throw error
    return false
  }
}

/** A folder that looks like a state folder of an earlier version and is not used. */
export type IgnoredFolder = { readonly path: string; readonly reason: string }

export type EarlierFolders = {
  /** State folders that a service of this user created at their current path, the nearest first. */
  readonly found: readonly string[]
  readonly ignored: readonly IgnoredFolder[]
}

/**
 * State folders of earlier versions at or above a folder, and at home. Anyone who makes a repository or an archive can
 * put a folder of that name with known keys into it, so a folder counts only with the seal of a service of this user.
 */
export function findEarlierFolders(from: string, home: string): EarlierFolders {
  const key = readSealKey(home)
  const found: string[] = []
  const ignored: IgnoredFolder[] = []
  for (const path of candidates(from, home)) {
    if (!hasState(path)) continue
    const reason = whyNot(path, key)
    if (reason === undefined) found.push(path)
    else ignored.push({ path, reason })
  }
  return { found, ignored }
}

function candidates(from: string, home: string): Set<string> {
  const paths = new Set<string>()
  for (let folder = from; ; folder = dirname(folder)) {
    paths.add(join(folder, EARLIER_NAME))
    if (dirname(folder) === folder) break
  }
  return paths.add(join(home, EARLIER_NAME))
}

function whyNot(path: string, key: Uint8Array | undefined): string | undefined {
  try {
    using folder = openPrivateFolder(path)
    if (!folder) return 'it is gone'
    const seal = folder.readFile(SEAL_FILE) ?? ''
    const numbers = lstatSync(folder.at('.'), { bigint: true })
    if (key !== undefined && isSealOf(seal, numbers, key)) return undefined
    return 'it was not created here by a service, but copied, unpacked or checked out'
  } catch (error) {
    if (!(error instanceof Distrust)) throw error
    return error.path === path ? error.reason : `${basename(error.path)} in it: ${error.reason}`
  }
}

/** Explains that the service does not start because state of an earlier version exists, with one command per option. */
export function undecidedWords(found: readonly string[], stateDir: string): string {
  const [nearest = ''] = found
  return [
    `The state of an earlier version is in ${found.join(', ')}, and ${stateDir} has no state yet. Choose one:`,
    `  npx agentweaver move-state ${nearest}    moves it to ${stateDir}`,
    `  AGENTWEAVER_STATE_DIR=${nearest}    keeps it where it is`,
    `  AGENTWEAVER_STATE_DIR=${stateDir}    starts with a new, empty one`,
  ].join('\n')
}
