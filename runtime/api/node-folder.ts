import { readdir, realpath } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'

/** Entries of an installed Node, from Node's archives and from the npm package `node`. */
const OWN_ENTRIES: Readonly<Record<string, readonly string[]>> = {
  '.': [
    'bin',
    'include',
    'lib',
    'share',
    'node_modules',
    'LICENSE',
    'README.md',
    'CHANGELOG.md',
    'package.json',
    'installArchSpecificPackage.js',
  ],
  lib: ['node_modules'],
  share: ['doc', 'man', 'systemtap'],
}

/**
 * The folder of the installed Node, which commands may see as a toolchain. Undefined if it contains other files: with
 * `~/.local/bin/node`, commands would see everything in `~/.local`.
 */
export async function nodeFolder(executable: string): Promise<string | undefined> {
  const bin = dirname(await realpath(executable))
  const folder = dirname(bin)
  if (basename(bin) !== 'bin' || folder === '/') return undefined
  const isOwn = await Promise.all(
    Object.entries(OWN_ENTRIES).map(async ([place, known]) =>
      (await namesIn(join(folder, place))).every((name) => known.includes(name)),
    ),
  )
  return isOwn.includes(false) ? undefined : folder
}

/** Names in a folder; empty if it does not exist. An unreadable folder counts as having other files. */
const namesIn = (folder: string): Promise<string[]> =>
  readdir(folder).catch((error: NodeJS.ErrnoException) => (error.code === 'ENOENT' ? [] : ['unreadable']))
