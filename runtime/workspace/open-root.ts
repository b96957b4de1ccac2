import { closeSync, constants, lstatSync, openSync, readlinkSync } from 'node:fs'
import { errnoOf, messageOf } from '../kit/errors.ts'
import type { PathEngine, Root } from './engines/path-engine.ts'
import { createWalkEngine } from './engines/walk-engine.ts'
import { FileFault, faultFrom, toFileFault } from './file-fault.ts'
import { handlePath, O_PATH } from './handles.ts'
import { pathOf } from './parse-path.ts'

/** Opens the root: an absolute path of an existing directory that is not a link. */
export function openRoot(path: string): Root {
  if (!path.startsWith('/') || path.includes('\0') || /^\/+$/.test(path)) {
    throw new FileFault('denied', `${JSON.stringify(path)} cannot be a workspace: name a folder absolutely`)
  }
  const fd = openDirectory(path.replace(/\/+$/, ''))
  try {
    return { fd, path: readlinkSync(handlePath(fd)) }
  } catch (error) {
    closeSync(fd)
    throw faultFrom(error, 'io_error', `the workspace engine needs /proc: ${messageOf(error)}`)
  }
}

function openDirectory(path: string): number {
  try {
    // O_DIRECTORY prevents opening a link itself. The kernel then returns ENOTDIR for links and for files.
    return openSync(path, O_PATH | constants.O_DIRECTORY | constants.O_NOFOLLOW)
  } catch (error) {
    if (errnoOf(error) === 'ENOTDIR' && isLink(path)) {
      throw faultFrom(error, 'symlink', `the workspace ${path} is a symbolic link`)
    }
    throw toFileFault(error, `the workspace ${path}`)
  }
}

const isLink = (path: string): boolean =>
  lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true

/** Returns the requested engine, or the best one that works here: `openat2` if the kernel and koffi support it. */
export async function selectEngine(root: Root, wanted?: PathEngine['name']): Promise<PathEngine> {
  if (wanted === 'walk') return createWalkEngine(root)
  try {
    const { createOpenat2Engine } = await import('./engines/openat2-engine.ts')
    const engine = createOpenat2Engine(root)
    closeSync(engine.open(pathOf([]), O_PATH | constants.O_DIRECTORY))
    return engine
  } catch (error) {
    if (wanted === 'openat2') throw error
    return createWalkEngine(root)
  }
}

/** The engine that `openWorkspace` selects on this machine. */
export async function activePathEngine(): Promise<PathEngine['name']> {
  const fd = openSync('/', O_PATH | constants.O_DIRECTORY)
  try {
    return (await selectEngine({ fd, path: '/' })).name
  } finally {
    closeSync(fd)
  }
}
