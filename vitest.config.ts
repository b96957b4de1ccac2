import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'
import { shareCompileCache } from './test/helpers/compile-cache.ts'
import { LongestFirst } from './test/helpers/longest-first.ts'

/** Tests of other configurations: they need a cluster, a Pulumi engine or other tools. */
const ELSEWHERE = ['test/cluster/**', 'test/pulumi/cli/**', 'test/attack/**']

/** Only a test that hangs meets these deadlines, because a busy machine can be ten times slower. */
const DEADLINES = { testTimeout: 180_000, hookTimeout: 180_000, expect: { poll: { timeout: 60_000 } } }

/** Bundles the programs of a sandbox once, when the first file needs them. */
const PROGRAMS = 'test/helpers/programs.setup.ts'

/**
 * These files share their workers' modules, which saves the time to load them again for each file. The setup file fails
 * a test that starts a process or uses TCP.
 */
const IN_ONE_PROCESS = { isolate: false, setupFiles: ['test/helpers/unit.setup.ts'] }

/** Most of these files take more than three seconds of processor time. All together they take three times as long as the others. */
const LONG = '**/*.long.*.test.ts'

shareCompileCache()

/** The suffix of a file name says what its tests need: `x.test.ts`, `x.sweep.test.ts`, and so on. */
export default defineConfig({
  test: {
    // One more than the machine has processors: many tests wait for processes that they started.
    maxWorkers: Math.min(Math.max(availableParallelism() + 1, 3), 9),
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        // No processes and no network. All of them together take seconds.
        test: {
          name: 'unit',
          include: ['test/**/*.test.ts'],
          exclude: [...ELSEWHERE, '**/*.{sweep,process,database}.test.ts'],
          ...DEADLINES,
          ...IN_ONE_PROCESS,
        },
      },
      {
        // The same, for suites that take seconds of processor time each: they try many inputs, or write much to the disk.
        test: {
          name: 'sweep',
          include: ['test/**/*.sweep.test.ts'],
          exclude: [LONG],
          ...DEADLINES,
          ...IN_ONE_PROCESS,
        },
      },
      {
        // Starts processes, or servers on TCP.
        test: {
          name: 'process',
          include: ['test/**/*.process.test.ts'],
          exclude: [...ELSEWHERE, LONG],
          globalSetup: PROGRAMS,
          ...DEADLINES,
        },
      },
      {
        // Uses the PostgreSQL server of the test run.
        test: {
          name: 'database',
          include: ['test/**/*.database.test.ts'],
          exclude: [...ELSEWHERE, LONG],
          globalSetup: [PROGRAMS, 'test/helpers/postgres.setup.ts'],
          ...DEADLINES,
        },
      },
      {
        // The files of these kinds that take longest. `npm test` leaves them out.
        test: {
          name: 'long',
          include: [`test/${LONG}`],
          exclude: ELSEWHERE,
          globalSetup: [PROGRAMS, 'test/helpers/postgres.setup.ts'],
          ...DEADLINES,
        },
      },
    ],
  },
})
