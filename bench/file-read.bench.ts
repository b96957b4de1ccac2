import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { spawnRunner } from '../runtime/agent-host/toolbox/spawn-runner.ts'
import { silentLog } from '../runtime/kit/log.ts'
import { openWorkspace } from '../runtime/workspace/open-workspace.ts'
import { type Bench, type Figure, figure, timeInTurn } from './harness.ts'

const BYTES = 4096
const BAR = 3
/** A person does not notice a delay below this bar. The round trip has no bar. */
const RUNNER_BAR_MS = 5
const ROUNDS = { rounds: 2000, warmUp: 300 }

/** A contained read of 4 KiB against `fs.readFile`; through the runner's socket for information. */
export const bench: Bench = { name: 'file-read', run }

async function run(): Promise<readonly Figure[]> {
  const root = mkdtempSync(join(tmpdir(), 'file-read-'))
  writeFileSync(join(root, 'f'), Buffer.alloc(BYTES, 'x'))
  try {
    return [await readByEngine(root, 'openat2'), await readByEngine(root, 'walk'), await readByRunner(root)]
  } finally {
    rmSync(root, { recursive: true })
  }
}

async function readByEngine(root: string, engine: 'openat2' | 'walk'): Promise<Figure> {
  const workspace = await openWorkspace(root, { engine })
  try {
    const samples = await timeInTurn({
      ...ROUNDS,
      baseline: () => readFile(join(root, 'f')),
      value: () => workspace.perform({ op: 'read', path: 'f' }),
    })
    return figure({ name: `file-read (${engine})`, unit: 'ms', bar: BAR, samples })
  } finally {
    workspace.close()
  }
}

async function readByRunner(root: string): Promise<Figure> {
  const runner = await spawnRunner({ backend: 'direct', toolRoots: [], log: silentLog })
  try {
    await runner.open(root)
    const samples = await timeInTurn({
      ...ROUNDS,
      baseline: () => readFile(join(root, 'f')),
      value: () => runner.file({ op: 'read', path: 'f' }),
    })
    return figure({
      name: 'file-read (through the runner)',
      unit: 'ms',
      measure: 'absolute',
      bar: RUNNER_BAR_MS,
      samples,
      note: 'for information: one round trip over the socket pair to a second process',
    })
  } finally {
    await runner.close()
  }
}
