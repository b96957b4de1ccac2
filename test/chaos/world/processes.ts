import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import type { ProcessKind } from '../plan/faults.ts'

export type Found = { readonly pid: number; readonly parent: number; readonly command: string }

const read = (file: string): string => {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}

function workingFolder(pid: number): string {
  try {
    return readlinkSync(`/proc/${pid}/cwd`)
  } catch {
    return ''
  }
}

/** Every living process of this machine. Zombies are left out, because only their parent can remove them. */
function allProcesses(): Found[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      const pid = Number(name)
      const stat = read(`/proc/${pid}/stat`)
      const [state, parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
      if (stat === '' || state === 'Z' || state === 'X') return []
      const command = read(`/proc/${pid}/cmdline`).replaceAll('\0', ' ').trim()
      return [{ pid, parent: Number(parent), command }]
    })
}

/**
 * Processes that name the folder of a round: in their command line, working folder, environment or mounts. The mounts
 * find a command in a sandbox, which does not see the path of the folder.
 */
export function processesOf(token: string): Found[] {
  const places = (pid: number) =>
    [workingFolder(pid), read(`/proc/${pid}/environ`), ...mountedFolders(pid)].join('\n')
  return allProcesses().filter(
    ({ pid, command }) => pid !== process.pid && (command.includes(token) || places(pid).includes(token)),
  )
}

/** Folders that are mounted elsewhere. The mount of a whole file system has the folder `/`, and every process has it. */
const mountedFolders = (pid: number): string[] =>
  read(`/proc/${pid}/mountinfo`)
    .split('\n')
    .map((line) => line.split(' ')[3] ?? '')

/** Processes of one kind below the given services and pods. */
export function targetsOf(kind: Exclude<ProcessKind, 'api'>, roots: readonly number[]): Found[] {
  const below = descendantsOf(roots)
  if (kind === 'agent-host') return below.filter(({ command }) => isProgram(command, 'agent-host.js'))
  if (kind === 'runner') return below.filter(({ command }) => isProgram(command, 'runner.js'))
  const runners = below.filter(({ command }) => isProgram(command, 'runner.js'))
  return descendantsOf(runners.map(({ pid }) => pid))
}

/** The program itself, and not a launcher whose command line ends with it. */
const isProgram = (command: string, name: string): boolean =>
  /^\S*node\b/.test(command) && command.includes(name)

export function descendantsOf(roots: readonly number[]): Found[] {
  const all = allProcesses()
  const found: Found[] = []
  for (let parents = new Set(roots); parents.size > 0; ) {
    const children = all.filter(({ parent }) => parents.has(parent))
    found.push(...children)
    parents = new Set(children.map(({ pid }) => pid))
  }
  return found
}

/** Sends a signal; false if the process is gone. */
export function signal(pid: number, name: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, name)
  } catch {
    return false
  }
}
