import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { type Bench, figure } from './harness.ts'
import { startSubject } from './subjects/process.ts'

const RUNS = 1_000
const ROUNDS = 3
const SUBJECT = fileURLToPath(new URL('subjects/open-runs.ts', import.meta.url))
const HOSTS = fileURLToPath(new URL('subjects/silent-hosts.mjs', import.meta.url))

/** Memory of the API process for runs that it drives and that wait for their next turn in their sandboxes. */
export const bench: Bench = {
  name: 'open-runs',
  run: async () => {
    const folder = mkdtempSync(join(tmpdir(), 'bench-hosts-'))
    const socket = join(folder, 'host.sock')
    const hosts = await startSubject([HOSTS, socket])
    const samples = { baseline: [] as number[], value: [] as number[] }
    for (let round = 0; round < ROUNDS; round++) {
      const args = ['--expose-gc', SUBJECT, socket, String(RUNS)]
      const { stdout } = await promisify(execFile)(process.execPath, args)
      const { before, after } = JSON.parse(stdout) as { before: number; after: number }
      samples.baseline.push(before)
      samples.value.push(after)
    }
    await hosts.stop()
    rmSync(folder, { recursive: true })
    return figure({
      name: `${RUNS} open runs: memory`,
      unit: 'bytes',
      measure: 'added',
      bar: Number.POSITIVE_INFINITY,
      samples,
      note: 'drivers, relays and connections; AgentHosts are replaced by a server that says nothing',
    })
  },
}
