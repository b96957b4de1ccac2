import { randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { spawnRunner } from '../runtime/agent-host/toolbox/spawn-runner.ts'
import { saveWorkspace } from '../runtime/api/runs/checkpoints/save-workspace.ts'
import { silentLog } from '../runtime/kit/log.ts'
import { openStore } from '../runtime/store/open-store.ts'
import { type Bench, type Figure, figure, timeInTurn } from './harness.ts'
import { seededRun } from './subjects/seeded-runs.ts'

const FILES = 1_000
const FILE_BYTES = 52_429
const CHANGED = FILES / 100
/** A file that changed shortly before a manifest is read again for the next one. */
const SETTLE_MS = 2_500

/** The workspace part of a checkpoint: 50 MiB in 1,000 files, through a runner into the embedded store. */
export const bench: Bench = { name: 'checkpoint', run }

async function run(): Promise<readonly Figure[]> {
  const folder = mkdtempSync(join(tmpdir(), 'checkpoint-'))
  const root = join(folder, 'workspace')
  mkdirSync(root)
  const change = (count: number) => {
    for (let file = 0; file < count; file += 1) writeFileSync(join(root, `f${file}`), randomBytes(FILE_BYTES))
  }
  change(FILES)
  const store = await openStore({ kind: 'sqlite', file: join(folder, 'store.db') }, { log: silentLog })
  const runner = await spawnRunner({ backend: 'direct', toolRoots: [], log: silentLog })
  try {
    await runner.open(root)
    const { id } = await store.transaction((tx) => tx.insertRun(seededRun(1, { owner: 'ada' })))
    const client = {
      getManifest: async () => runner.manifest(),
      getPack: async (contents: readonly string[]) => runner.pack(contents),
      getWorkspace: async () => runner.tarOut(),
    }
    const signal = new AbortController().signal
    let commits = 0
    const save = async () => {
      const { contents, ...workspace } = await saveWorkspace({
        store,
        run: { id, owner: 'ada' },
        client,
        signal,
      })
      commits += 1
      const position = { owner: 'ada', generation: 1, hostSequence: commits, policyVersion: 'p' }
      const at = new Date().toISOString()
      await store.transaction((tx) => tx.commitCheckpoint(id, { ...position, at, workspace, contents }))
    }
    await save()
    await delay(SETTLE_MS)
    await save()
    const common = { unit: 'ms', measure: 'absolute' } as const
    const whole = async () => {
      for await (const _ of runner.tarOut());
    }
    const unchanged = await timeInTurn({ rounds: 20, warmUp: 2, baseline: whole, value: save })
    const changed = await timeInTurn({
      rounds: 20,
      warmUp: 2,
      baseline: async () => {
        await whole()
        change(CHANGED)
      },
      value: save,
    })
    return [
      figure({ ...common, name: 'checkpoint (nothing changed)', bar: 50, samples: unchanged }),
      figure({ ...common, name: 'checkpoint (1 % of 50 MiB changed)', bar: 500, samples: changed }),
    ]
  } finally {
    await runner.close()
    await store.close()
    rmSync(folder, { recursive: true })
  }
}
