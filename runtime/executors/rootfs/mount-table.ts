import { type HostMount, mountOf, mountsBelow } from './mount-info.ts'
import type { Mount } from './mounts.ts'
import { DEVICES } from './skeleton.ts'

/** Rows of an fstab(5) file for `mount --all`, so that one process makes all mounts. */
export interface MountTable {
  rows(mounts: readonly Mount[]): string
  /** `/proc`, and the devices that other launchers create in `/dev`. */
  kernelRows(): string
}

/** Creates rows for a new root at `root`. `mounted` are the host's mounts, whose flags a bind mount must repeat. */
export function mountTable(root: string, mounted: readonly HostMount[]): MountTable {
  const row = (source: string, target: string, rest: string) =>
    `${escaped(source)} ${escaped(root + target)} ${rest} 0 0\n`

  const bind = (source: string, target: string, writable: boolean) => {
    const below = mountsBelow(mounted, source)
    const access = writable ? 'rw' : 'ro'
    const flags = [access, 'nosuid', 'nodev', ...keptFlags(mounted, source)].join(',')
    const own = row(source, target, `none ${below.length > 0 ? 'rbind' : 'bind'},${flags},X-mount.mkdir`)
    // A recursive bind changes only the flags of its top mount, so each mount below is bound again.
    const others = below.map((mount) => {
      const place = target + mount.path.slice(source.length)
      const kept = keptFlags(mounted, mount.path)
      return row(mount.path, place, `none bind,${[access, 'nosuid', 'nodev', ...kept].join(',')}`)
    })
    return own + others.join('')
  }

  const toRows = (mount: Mount): string => {
    switch (mount.kind) {
      case 'bind':
        return bind(mount.source, mount.target, mount.writable)
      case 'tmpfs':
        return row('tmpfs', mount.target, `tmpfs nosuid,nodev,size=${mount.bytes},mode=${mount.mode}`)
      case 'hidden-folder':
        return row('tmpfs', mount.target, 'tmpfs ro,nosuid,nodev,noexec,size=4096,mode=0000')
      case 'hidden-file':
        return row('/dev/null', mount.target, 'none bind,ro,nosuid,nodev,noexec')
    }
  }

  return {
    rows: (mounts) => mounts.map(toRows).join(''),
    kernelRows: () =>
      [
        row('proc', '/proc', 'proc nosuid,nodev,noexec'),
        ...DEVICES.map((name) => row(`/dev/${name}`, `/dev/${name}`, 'none bind,nosuid,noexec')),
        row('devpts', '/dev/pts', 'devpts nosuid,noexec,newinstance,ptmxmode=0666,mode=0620'),
      ].join(''),
  }
}

/**
 * A user namespace must not remove these flags from an inherited mount: the kernel rejects a mount without
 * them.
 */
const KEPT = ['noexec', 'noatime', 'nodiratime', 'ro']

const keptFlags = (mounted: readonly HostMount[], path: string): string[] =>
  mountOf(mounted, path)?.options.filter((option) => KEPT.includes(option)) ?? []

/** fstab(5) separates fields by blanks and reads octal escapes as bytes. `\s` would match multi-byte characters. */
const escaped = (text: string): string =>
  text.replaceAll(
    /[\\\t\n\v\f\r #]/g,
    (character) => `\\${character.charCodeAt(0).toString(8).padStart(3, '0')}`,
  )
