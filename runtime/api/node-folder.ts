import { readdir, realpath } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'

/** What Node's own archives and the npm package `node` put into their folder, and into the two that people share. */
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
 * The folder of an installed Node, which commands may see as a toolchain. Undefined if the folder has more in it than a
 * Node: with `~/.local/bin/node` commands would see everything in `~/.local`, and with `~/bin/node` the whole home.
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

/** The names in a folder; none if it is absent. One that cannot be read counts as holding something else. */
const namesIn = (folder: string): Promise<string[]> =>
  readdir(folder).catch((error: NodeJS.ErrnoException) => (error.code === 'ENOENT' ? [] : ['unreadable']))
