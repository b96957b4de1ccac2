import { readFileSync } from 'node:fs'
import { isWithin } from './mounts.ts'

/** A mount of the host, with the options that a bind mount must keep. */
export interface HostMount {
  readonly path: string
  readonly options: readonly string[]
}

/** In `/proc/self/mountinfo`, field 5 is the mount point and field 6 its options. */
export function parseMountInfo(text: string): HostMount[] {
  return text
    .split('\n')
    .filter(Boolean)
    .map((line) => {
      const fields = line.split(' ')
      return { path: unescaped(fields[4] ?? ''), options: (fields[5] ?? '').split(',') }
    })
}

export const readMountInfo = (): HostMount[] => parseMountInfo(readFileSync('/proc/self/mountinfo', 'utf8'))

/** Returns the mount that holds a path: the last one with the longest matching mount point. */
export function mountOf(mounts: readonly HostMount[], path: string): HostMount | undefined {
  return mounts
    .filter((mount) => isWithin(path, mount.path))
    .reduce<HostMount | undefined>(
      (best, mount) => (best && best.path.length > mount.path.length ? best : mount),
      undefined,
    )
}

/** Returns the mounts below a path, which a recursive bind includes. */
export const mountsBelow = (mounts: readonly HostMount[], path: string): HostMount[] =>
  mounts.filter((mount) => mount.path !== path && isWithin(mount.path, path))

const unescaped = (field: string): string =>
  field.replaceAll(/\\([0-7]{3})/g, (_, octal) => String.fromCharCode(Number.parseInt(octal, 8)))
