import { readFileSync } from 'node:fs'

/** Identifies a process. The kernel reuses PIDs, so the start time is needed too. */
export interface ProcessIdentity {
  readonly pid: number
  /** Clock ticks between boot and the start of the process (field 22 of /proc/PID/stat). */
  readonly startTicks: string
}

interface ProcessStat extends ProcessIdentity {
  readonly state: string
  readonly parent: number
}

export function readStat(pid: number): ProcessStat | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    return { pid, state: fields[0] ?? '', parent: Number(fields[1]), startTicks: fields[19] ?? '' }
  } catch {
    return undefined
  }
}

export function identityOf(pid: number): ProcessIdentity | undefined {
  const stat = readStat(pid)
  return stat && { pid, startTicks: stat.startTicks }
}

/** True while this process runs. A zombie counts as ended. */
export function isAlive(identity: ProcessIdentity): boolean {
  const stat = readStat(identity.pid)
  return stat !== undefined && stat.startTicks === identity.startTicks && stat.state !== 'Z'
}

/** Resident memory in bytes. 0 if the process has ended. */
export function residentBytes(pid: number): number {
  try {
    const line = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))
    return Number(line?.[1] ?? 0) * 1024
  } catch {
    return 0
  }
}
