import { existsSync } from 'node:fs'
import { copyFile, lstat, mkdir, readlink, rm, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { errnoOf } from '../../kit/errors.ts'
import { makeOwnedFolder } from '../../kit/owned-folder.ts'
import { commandShell } from '../command-shell.ts'
import { SANDBOX_HOSTNAME, SANDBOX_PATHS, SANDBOX_USER } from './mounts.ts'

/** Name prefix of the folders of executors in `tmpdir()`. A process that was killed leaves them; the next service removes them. */
export const EXECUTOR_FOLDER_PREFIX = 'agentweaver-exec-'

/** The files of a sandbox's root on disk: mount points, links and a minimal `/etc`. Commands see it read-only. */
export interface Skeleton {
  /** The folder that becomes `/`. */
  readonly root: string
  /** A private folder for files that a backend passes to its launcher. */
  readonly aside: string
  remove(): Promise<void>
}

const { name, uid, gid } = SANDBOX_USER

/** Lists the sandbox user and no user of the host. */
const WRITTEN_FILES: Readonly<Record<string, string>> = {
  passwd: [
    'root:x:0:0:root:/root:/usr/sbin/nologin',
    `${name}:x:${uid}:${gid}:${name}:${SANDBOX_PATHS.home}:${commandShell().file}`,
    'nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n',
  ].join('\n'),
  group: `root:x:0:\n${name}:x:${gid}:\nnogroup:x:65534:\n`,
  hosts: `127.0.0.1 localhost ${SANDBOX_HOSTNAME}\n::1 localhost ${SANDBOX_HOSTNAME}\n`,
  hostname: `${SANDBOX_HOSTNAME}\n`,
  'nsswitch.conf': 'passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n',
  'resolv.conf': '',
}

/** Files in the host's `/etc` that loaders and libraries read and that contain no secrets. */
const COPIED_FILES = [
  ...['ld.so.cache', 'ld.so.conf', 'protocols', 'services', 'mime.types', 'localtime', 'timezone'],
  ...['debian_version', 'gai.conf', 'inputrc', 'magic', 'ssl/openssl.cnf', 'pki/tls/openssl.cnf'],
  // Maven of Debian does not start without them. Its settings.xml may contain passwords.
  ...['maven/m2.conf', 'maven/logging/simplelogger.properties'],
]

const FOLDERS = ['usr', 'etc', 'proc', 'dev', 'tmp', 'workspace', SANDBOX_PATHS.home, 'root', '.old']

/** Device nodes in the sandbox. They are mount points if the launcher does not create them. */
export const DEVICES = ['null', 'zero', 'full', 'random', 'urandom', 'tty'] as const

const DEVICE_LINKS = { fd: '', stdin: '/0', stdout: '/1', stderr: '/2' }

/** Top-level folders that are links into `/usr` on a merged-usr system, and folders on others. */
const SYSTEM_FOLDERS = ['bin', 'sbin', 'lib', 'lib32', 'lib64', 'libx32']

/**
 * Creates the skeleton and calls `build`. Deletes everything if that fails. `systemFolders` are the top-level
 * folders that must be mounted because they are not links.
 */
export async function buildOnSkeleton<T>(
  build: (skeleton: Skeleton, systemFolders: readonly string[]) => Promise<T>,
): Promise<T> {
  const aside = await makeOwnedFolder(EXECUTOR_FOLDER_PREFIX)
  const remove = () => rm(aside, { recursive: true, force: true })
  try {
    const root = join(aside, 'root')
    await mkdir(root, { mode: 0o755 })
    for (const folder of FOLDERS) await mkdir(join(root, folder), { recursive: true })
    await furnishEtc(join(root, 'etc'))
    await furnishDev(join(root, 'dev'))
    return await build({ root, aside, remove }, await linkSystemFolders(root))
  } catch (error) {
    await remove()
    throw error
  }
}

async function furnishEtc(etc: string): Promise<void> {
  for (const [file, text] of Object.entries(WRITTEN_FILES)) await writeFile(join(etc, file), text)
  for (const file of COPIED_FILES) await copyIfThere(`/etc/${file}`, join(etc, file))
  await symlink('../usr/lib/os-release', join(etc, 'os-release'))
  await symlink('../proc/self/mounts', join(etc, 'mtab'))
}

async function furnishDev(dev: string): Promise<void> {
  for (const device of DEVICES) await writeFile(join(dev, device), '')
  for (const [link, suffix] of Object.entries(DEVICE_LINKS))
    await symlink(`/proc/self/fd${suffix}`, join(dev, link))
  await symlink('pts/ptmx', join(dev, 'ptmx'))
  await mkdir(join(dev, 'pts'))
  await mkdir(join(dev, 'shm'))
}

async function linkSystemFolders(root: string): Promise<string[]> {
  const folders: string[] = []
  for (const folder of SYSTEM_FOLDERS) {
    const found = await lstat(`/${folder}`).catch(absent)
    if (found?.isSymbolicLink()) await symlink(await readlink(`/${folder}`), join(root, folder))
    else if (found?.isDirectory()) {
      await mkdir(join(root, folder))
      folders.push(`/${folder}`)
    }
  }
  return folders
}

/** Copies a file, following links. Does nothing if it does not exist. */
async function copyIfThere(from: string, to: string): Promise<void> {
  if (!existsSync(from)) return
  await mkdir(dirname(to), { recursive: true })
  await copyFile(from, to)
}

function absent(error: unknown): undefined {
  if (errnoOf(error) === 'ENOENT') return undefined
  throw error
}
