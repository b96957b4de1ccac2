import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import type { TreeFiles } from './tree-files.ts'

/** Steps between which a test kills the process. */
export type WriteStep = 'staged' | 'set aside' | 'in place'

export interface WriteOptions {
  /** Called after each step. @default none */
  readonly onStep?: (step: WriteStep) => void
}

/**
 * Replaces a tree. The new tree is written next to the old one, the old one is renamed and then deleted. If
 * the process is killed at any point, one complete tree exists and `recoverTree` restores it.
 */
export function writeTree(folder: string, files: TreeFiles, { onStep = () => {} }: WriteOptions = {}): void {
  const aside = asideOf(folder)
  const staged = join(dirname(folder), `.${basename(folder)}.${process.pid}.new`)
  rmSync(staged, { recursive: true, force: true })
  for (const [path, text] of files) {
    const target = join(staged, path)
    mkdirSync(dirname(target), { recursive: true })
    writeFileSync(target, text)
  }
  onStep('staged')
  if (existsSync(folder)) renameSync(folder, aside)
  onStep('set aside')
  renameSync(staged, folder)
  onStep('in place')
  rmSync(aside, { recursive: true, force: true })
}

/**
 * Cleans up after a killed `writeTree`: restores the old tree if no new one is in place, and deletes the
 * temporary folders.
 */
export function recoverTree(folder: string): void {
  const aside = asideOf(folder)
  if (!existsSync(folder) && existsSync(aside)) renameSync(aside, folder)
  const parent = dirname(folder)
  if (!existsSync(parent)) return
  const prefix = `.${basename(folder)}.`
  for (const name of readdirSync(parent).filter((entry) => entry.startsWith(prefix))) {
    rmSync(join(parent, name), { recursive: true, force: true })
  }
}

/** Returns the path of the complete tree, also while another process replaces it. Changes nothing. */
export function wholeTree(folder: string): string {
  return !existsSync(folder) && existsSync(asideOf(folder)) ? asideOf(folder) : folder
}

const asideOf = (folder: string) => join(dirname(folder), `.${basename(folder)}.old`)
