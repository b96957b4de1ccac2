import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Bench, type Figure, figure } from './harness.ts'

const SUBJECT = fileURLToPath(new URL('subjects/busy-runs.ts', import.meta.url))
const DELAY = fileURLToPath(new URL('subjects/slow-fsync.c', import.meta.url))
const FSYNC_MS = 5

/** How long the events of 100 busy runs wait for their commit, on a disk whose flush takes 5 ms longer than on this one. */
export const bench: Bench = {
  name: 'busy-runs',
  run: async (): Promise<readonly Figure[]> => {
    const folder = mkdtempSync(join(tmpdir(), 'bench-fsync-'))
    const library = join(folder, 'slow-fsync.so')
    try {
      execFileSync('gcc', ['-shared', '-fPIC', '-O2', '-o', library, DELAY, '-ldl'])
      const baseline = delaysWith(library, 0)
      const value = delaysWith(library, FSYNC_MS)
      const note = `100 runs with 20 events per second each; ${value.length} events were committed, ${baseline.length} without the delay`
      return [50, 99].map((percentile) =>
        figure({
          name: `busy-runs: wait for the commit, p${percentile}`,
          unit: 'ms',
          measure: 'absolute',
          bar: Number.POSITIVE_INFINITY,
          percentile,
          samples: { baseline, value },
          note,
        }),
      )
    } finally {
      rmSync(folder, { recursive: true })
    }
  },
}

function delaysWith(library: string, fsyncMs: number): number[] {
  const env = { ...process.env, LD_PRELOAD: library, FSYNC_MS: String(fsyncMs) }
  const output = execFileSync(process.execPath, [SUBJECT], { env, encoding: 'utf8', maxBuffer: 64_000_000 })
  return JSON.parse(output.trim().split('\n').at(-1) ?? '[]') as number[]
}
