import { posix } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { hasNamespacedPidMax } from '../../runtime/executors/host.ts'
import { mountOf, mountsBelow, parseMountInfo } from '../../runtime/executors/rootfs/mount-info.ts'
import { mountTable } from '../../runtime/executors/rootfs/mount-table.ts'
import { bindReadOnly, bindWritable } from '../../runtime/executors/rootfs/mounts.ts'
import { containedPath } from '../../runtime/executors/rootfs/request-mounts.ts'

const MOUNTED = parseMountInfo(`22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:5 / /home rw,nosuid,nodev,noexec,noatime - ext4 /dev/vdb rw
31 30 0:6 / /home/a\\040b/cache ro,nosuid - tmpfs tmpfs rw
`)

describe('mounts of the host', () => {
  it('are found by the longest mount point that contains a path', () => {
    expect(mountOf(MOUNTED, '/home/x')?.path).toBe('/home')
    expect(mountOf(MOUNTED, '/homely')?.path).toBe('/')
    expect(mountOf(MOUNTED, '/home/a b/cache/y')?.path).toBe('/home/a b/cache')
  })

  it('below a path are listed', () => {
    expect(mountsBelow(MOUNTED, '/home/a b').map(({ path }) => path)).toEqual(['/home/a b/cache'])
    expect(mountsBelow(MOUNTED, '/home/a b/cache')).toEqual([])
  })
})

describe('the mount(8) table', () => {
  const table = mountTable('/new root', MOUNTED)

  it('escapes the separators of fstab(5)', () => {
    expect(table.rows([bindReadOnly('/a b\tc\\d#e', '/x')])).toMatch(
      /^\/a\\040b\\011c\\134d\\043e \/new\\040root\/x none bind,ro,/,
    )
  })

  it('keeps multi-byte characters', () => {
    expect(table.rows([bindReadOnly('/a\u00a0b\u2028c', '/x')])).toMatch(/^\/a\u00a0b\u2028c /)
  })

  it('keeps flags that a user namespace must not remove', () => {
    expect(table.rows([bindWritable('/home/x', '/workspace')])).toContain(
      ' none bind,rw,nosuid,nodev,noexec,noatime,X-mount.mkdir',
    )
  })

  it('makes mounts below a folder read-only too', () => {
    const [top, below] = table.rows([bindReadOnly('/home/a b', '/home/a b')]).split('\n')

    expect(top).toContain(' none rbind,ro,')
    expect(below).toMatch(/^\/home\/a\\040b\/cache \/new\\040root\/home\/a\\040b\/cache none bind,ro,/)
  })
})

describe('containedPath', () => {
  it('never leaves the workspace, for any spelling', () => {
    const part = fc.oneof(fc.constantFrom('..', '.', '', 'a', '...', 'a..', '\0', '\\', '~'), fc.string())
    expect(containedPath('x\n/')).toBe('x\n')
    fc.assert(
      fc.property(fc.array(part, { maxLength: 8 }), (parts) => {
        const contained = containedPath(parts.join('/'))
        if (contained === undefined) return true
        const real = posix.resolve('/root/of/workspace', contained)
        return real === '/root/of/workspace' || real.startsWith('/root/of/workspace/')
      }),
    )
  })
})

it.each([
  ['5.10.0-28-amd64', false],
  ['6.13.9', false],
  ['6.14.0', true],
  ['7.0.1', true],
  ['unknown', false],
])('kernel %s has a pid_max per namespace: %s', (kernel, expected) => {
  expect(hasNamespacedPidMax(kernel)).toBe(expected)
})
