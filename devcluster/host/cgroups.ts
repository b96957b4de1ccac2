import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const ROOT = '/sys/fs/cgroup'

/**
 * Creates one control group `name` below our own in every hierarchy, for a node and its pods, and returns the folders.
 * Processes of the node cannot see or change control groups outside it.
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

/** The control group of this process in each mounted v1 hierarchy and in the unified hierarchy. */
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

/** A new v1 cpuset is empty. No process can join it before it has processors and memory nodes. */
function inheritCpuset(folder: string): void {
  for (const file of ['cpuset.cpus', 'cpuset.mems']) {
    writeFileSync(join(folder, file), readFileSync(join(folder, '..', file), 'utf8'))
  }
  writeFileSync(join(folder, 'cgroup.clone_children'), '1')
}

/** True if the machine's controllers use cgroup v1 hierarchies. */
export function hasVersionOneControllers(): boolean {
  return /^\d+:[a-z_,]*memory[a-z_,]*:/m.test(readFileSync('/proc/self/cgroup', 'utf8'))
}

/** Removes a control group and all groups below it. Returns false while they still contain processes. */
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
