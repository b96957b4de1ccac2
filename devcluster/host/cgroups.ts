import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const ROOT = '/sys/fs/cgroup'

/**
 * Creates one control group `name` below the group of this process in every hierarchy, for a node and all its pods, and
 * returns the folders. The node can neither see nor change groups outside them.
 */
export function createCgroups(name: string): string[] {
  const folders = ownCgroups().map(({ mount, path }) => join(mount, path, name))
  for (const folder of folders) {
    mkdirSync(folder, { recursive: true })
    if (existsSync(join(folder, 'cpuset.cpus')) && existsSync(join(folder, 'cgroup.clone_children'))) {
      inheritCpuset(folder)
    }
  }
  return folders
}

interface OwnCgroup {
  readonly mount: string
  readonly path: string
}

/** The control groups of this process: in each mounted version 1 hierarchy and in the unified one. */
function ownCgroups(): OwnCgroup[] {
  return readFileSync('/proc/self/cgroup', 'utf8')
    .trim()
    .split('\n')
    .map((line) => {
      const [, controllers = '', ...path] = line.split(':')
      const folder = controllers === '' ? unifiedFolder() : controllers.replace('name=', '')
      return { mount: join(ROOT, folder), path: path.join(':') }
    })
    .filter(({ mount, path }) => existsSync(join(mount, path, 'cgroup.procs')))
}

function unifiedFolder(): string {
  return existsSync(join(ROOT, 'unified')) ? 'unified' : ''
}

/** A new version 1 cpuset is empty, and no process can enter it before it has processors and memory nodes. */
function inheritCpuset(folder: string): void {
  for (const file of ['cpuset.cpus', 'cpuset.mems']) {
    writeFileSync(join(folder, file), readFileSync(join(folder, '..', file), 'utf8'))
  }
  writeFileSync(join(folder, 'cgroup.clone_children'), '1')
}

/** True on a machine whose controllers are in version 1 hierarchies. */
export function hasVersionOneControllers(): boolean {
  return /^\d+:[a-z_,]*memory[a-z_,]*:/m.test(readFileSync('/proc/self/cgroup', 'utf8'))
}

/** Removes a control group and all groups below it; returns false while it still has processes. */
export function removeCgroup(folder: string): boolean {
  if (!existsSync(folder)) return true
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (entry.isDirectory()) removeCgroup(join(folder, entry.name))
  }
  try {
    rmdirSync(folder)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT'
  }
}

/** Kills all processes in a control group and in the groups below it. */
export function killCgroup(folder: string): void {
  try {
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      if (entry.isDirectory()) killCgroup(join(folder, entry.name))
    }
    for (const pid of readFileSync(join(folder, 'cgroup.procs'), 'utf8').split('\n')) {
      // A process of another PID namespace is listed as 0, which would be the group of this process.
      if (Number(pid) > 0) process.kill(Number(pid), 'SIGKILL')
    }
  } catch (error) {
    if (!['ENOENT', 'ENODEV', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
  }
}
