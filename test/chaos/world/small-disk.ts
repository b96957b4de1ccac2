import { spawnSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { join } from 'node:path'

const SIZE = '96m'

/** A file system that can be filled. Undefined without the right to mount: the fault is then left out. */
export function mountSmallDisk(folder: string) {
  const options = ['-t', 'tmpfs', '-o', `size=${SIZE},mode=700`, 'tmpfs', folder]
  if (spawnSync('mount', options, { stdio: 'ignore' }).status !== 0) return undefined
  const filler = join(folder, 'filler')
  return {
    fill(): void {
      // Ends with an error when nothing is left.
      spawnSync('dd', ['if=/dev/zero', `of=${filler}`, 'bs=64k'], { stdio: 'ignore' })
      spawnSync('dd', ['if=/dev/zero', `of=${filler}2`, 'bs=1k'], { stdio: 'ignore', timeout: 1_000 })
    },
    free(): void {
      for (const suffix of ['', '2']) rmSync(`${filler}${suffix}`, { force: true })
    },
    unmount(): void {
      spawnSync('umount', ['-l', folder], { stdio: 'ignore' })
    },
  }
}
