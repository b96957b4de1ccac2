import { mkdir, mkdtemp, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { WorkspaceUsage } from '../../contracts/exec.ts'
import { UsageLevels } from '../../runtime/executors/process/usage-levels.ts'
import { WorkspaceUse } from '../../runtime/executors/process/workspace-use.ts'
import { until } from '../helpers/until.ts'

const MIB = 1_048_576
const LIMITS = { bytes: 64 * MIB, files: 10_000, isOfVolume: false }

async function aWorkspace() {
  const folder = await mkdtemp(join(tmpdir(), 'aw-use-'))
  const reports: WorkspaceUsage[] = []
  const use = new WorkspaceUse([folder], (usage) => reports.push(usage))
  onTestFinished(async () => {
    await use.close()
    await rm(folder, { recursive: true, force: true })
  })
  const levels = () => reports.map(({ level }) => level)
  const write = (name: string, mib: number) => writeFile(join(folder, name), Buffer.alloc(mib * MIB, 1))
  return { use, folder, reports, levels, write }
}

/** Writes until a condition holds. A fixed amount is not enough, because other tests delete files on the same disk. */
const writeUntil = (what: string, done: () => boolean, write: (round: number) => Promise<unknown>) => {
  let round = 0
  return until(what, async () => {
    if (!done()) await write(round++)
    return done()
  })
}

it('reports a level before it stops a command, and level 0 after the files are deleted', async () => {
  const { use, folder, reports, levels, write } = await aWorkspace()
  let levelsWhenFull: number[] | undefined
  await use.begin(LIMITS)
  const stop = use.watch(LIMITS, () => {
    levelsWhenFull = levels()
  })

  const names: string[] = []
  await writeUntil(
    'the command is stopped',
    () => levelsWhenFull !== undefined,
    async (round) => {
      names.push(`much-${round}`)
      await write(`much-${round}`, 1)
    },
  )
  expect(levelsWhenFull?.at(-1)).toBe(95)
  expect(levels()).toEqual([...new Set(levels())].sort((one, other) => one - other))
  expect(reports[0]).toMatchObject({ maxBytes: 64 * MIB, maxFiles: 10_000, isComplete: true })
  expect(reports[0]?.bytes).toBeGreaterThanOrEqual(32 * MIB)

  for (const name of names) await rm(join(folder, name))
  stop()
  await until('it is reported as empty', () => levels().at(-1) === 0)
})

it('stops a command that writes too much while more is deleted on the same disk', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'aw-use-'))
  const { dev } = await stat(folder)
  let [files, reads] = [100_000, 0]
  const use = new WorkspaceUse([folder], undefined, async () => {
    reads += 1
    return new Map([[dev, { bytes: 0, files, freeBytes: 1e12, totalBytes: 1e12 }]])
  })
  onTestFinished(async () => {
    await use.close()
    await rm(folder, { recursive: true, force: true })
  })
  const measuredAgain = () => {
    const before = reads
    return until('the watch measures the disk twice', () => reads >= before + 2)
  }
  const limits = { ...LIMITS, files: 100 }
  await use.begin(limits)
  let reason = ''
  const stop = use.watch(limits, (why) => {
    reason = why
  })

  await measuredAgain()
  files -= 50_000
  await measuredAgain()
  for (let index = 0; index < 200; index++) await writeFile(join(folder, `file-${index}`), '')
  files += 200

  await until('the command is stopped', () => reason !== '')
  expect(reason).toContain('max_workspace_files allows 100')
  stop()
})

it('reports a level that a command reached although it ended before the next measurement', async () => {
  const { use, levels, write } = await aWorkspace()
  await use.begin(LIMITS)

  await writeUntil(
    'it is reported',
    () => levels().length > 0,
    async (round) => {
      const stop = use.watch(LIMITS, () => undefined)
      await write(`much-${round}`, 34)
      stop()
    },
  )
})

it('reports a level when the number of files reaches it', async () => {
  const { use, folder, levels, reports } = await aWorkspace()
  const limits = { ...LIMITS, files: 1_000 }
  await use.begin(limits)

  await writeUntil(
    'it is reported',
    () => levels().length > 0,
    async (round) => {
      for (let index = 0; index < 50; index++) await writeFile(join(folder, `file-${round}-${index}`), '')
      await use.begin(limits)
    },
  )
  expect(reports[0]?.maxFiles).toBe(1_000)
  expect(reports[0]?.files).toBeGreaterThanOrEqual(500)
})

describe('a full workspace', () => {
  const limits = { ...LIMITS, files: 1_000 }

  async function aFullWorkspace() {
    const { use, folder } = await aWorkspace()
    let names = 0
    let state = await use.begin(limits)
    /** Simulates a command that ends before the next measurement. */
    const create = async (count: number) => {
      const stop = use.watch(limits, () => undefined)
      for (let index = 0; index < count; index++) {
        const name = join(folder, `name-${names++}`)
        await (index % 2 ? mkdir(name) : symlink('target', name))
      }
      stop()
      state = await use.begin(limits)
    }
    await writeUntil(
      'it is full',
      () => state !== undefined,
      () => create(200),
    )
    expect(state?.mayRun).toBe(true)
    return { use, folder, create, state: () => state, names: () => names }
  }

  it('rejects commands after short commands added 10 % of a limit, until files are deleted', async () => {
    const { use, folder, create, state, names } = await aFullWorkspace()
    const before = names()

    await writeUntil(
      'commands are rejected',
      () => state()?.mayRun === false,
      () => create(20),
    )
    expect(names() - before).toBeGreaterThanOrEqual(100)
    expect(state()?.why).toContain('max_workspace_files allows 1000')

    for (let name = before; name < names(); name++)
      await rm(join(folder, `name-${name}`), { recursive: true })
    await until('commands can delete again', async () => (await use.begin(limits))?.mayRun === true)
  })

  it('still runs commands while other programs write to the same disk', async () => {
    const [{ use }, beside] = [await aFullWorkspace(), await aWorkspace()]

    for (let index = 0; index < 200; index++) await writeFile(join(beside.folder, `file-${index}`), '')
    await beside.write('large', 32)

    expect(await use.begin(limits)).toMatchObject({ mayRun: true })
  })

  it('ignores the growth of the first two stopped commands, and rejects commands after the third', async () => {
    const { use, write } = await aWorkspace()
    await use.begin(LIMITS)
    let number = 0
    /** A command that is stopped, and writes until commands are rejected. Whether one may start after it. */
    const runStopped = async () => {
      let [isStopped, mayRun] = [false, true]
      const stop = use.watch(LIMITS, () => {
        isStopped = true
      })
      await writeUntil(
        'the command is stopped',
        () => isStopped,
        () => write(`much-${number++}`, 1),
      )
      await use.begin(LIMITS)
      await writeUntil(
        'commands are rejected',
        () => !mayRun,
        async () => {
          await write(`last-${number++}`, 8)
          mayRun = (await use.begin(LIMITS))?.mayRun !== false
        },
      )
      stop()
      return (await use.begin(LIMITS))?.mayRun
    }

    expect([await runStopped(), await runStopped(), await runStopped()]).toEqual([true, true, false])
  })
})

it('reports a level once while the use varies around it', () => {
  const reports: WorkspaceUsage[] = []
  const levels = new UsageLevels((usage) => reports.push(usage))
  const limits = { bytes: 100 * MIB, files: 1_000 }
  const count = (mib: number) =>
    levels.counted(1, {
      usage: { bytes: mib * MIB, files: 1 },
      growth: { bytes: mib * MIB, files: 1 },
      limits,
      isComplete: true,
    })

  for (const mib of [10, 51, 49, 51, 49, 83, 79, 81, 44, 96, 120, 93, 0]) count(mib)

  expect(reports.map(({ level }) => level)).toEqual([50, 80, 0, 95, 0])
})

it('reports at most 100 changes per sandbox', () => {
  let reports = 0
  const levels = new UsageLevels(() => reports++)
  const limits = { bytes: 100, files: 100 }
  for (let round = 0; round < 500; round++) {
    const usage = { bytes: round % 2 === 0 ? 99 : 0, files: 0 }
    levels.counted(1, { usage, growth: usage, limits, isComplete: true })
  }

  expect(reports).toBe(100)
})

it('requests a count only if the level can have changed since the previous count', () => {
  const levels = new UsageLevels(() => undefined)
  const limits = { bytes: 100, files: 1_000 }
  const canHaveChanged = (bytes: number) => levels.canHaveChanged(1, { bytes, files: 0 }, limits)

  expect([canHaveChanged(49), canHaveChanged(50)]).toEqual([false, true])
  // Other programs wrote 55 of the 60 bytes.
  levels.counted(1, {
    usage: { bytes: 5, files: 0 },
    growth: { bytes: 60, files: 0 },
    limits,
    isComplete: true,
  })
  expect([canHaveChanged(60), canHaveChanged(104), canHaveChanged(106)]).toEqual([false, false, true])
})
