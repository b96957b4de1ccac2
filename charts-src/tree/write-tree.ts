import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import type { TreeFiles } from './tree-files.ts'

/** Named steps between which a process may be killed. */
export type WriteStep = 'staged' | 'set aside' | 'in place'

export interface WriteOptions {
  /** Told after each step. @default nobody */
  readonly onStep?: (step: WriteStep) => void
}

/**
 * Puts a tree in the place of another. It is written beside the old one, which is then moved aside and only then
 * removed: whenever the process is killed, one whole tree is there, and `recoverTree` puts it back in its place.
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

/** Undoes what a killed `writeTree` left: the old tree back where no new one is, and nothing beside it. */
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

/** Where the whole tree is, also in the moment in which another process exchanges it. Moves nothing. */
export function wholeTree(folder: string): string {
  return !existsSync(folder) && existsSync(asideOf(folder)) ? asideOf(folder) : folder
}

const asideOf = (folder: string) => join(dirname(folder), `.${basename(folder)}.old`)
