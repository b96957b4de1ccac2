import { defineConfig } from 'vitest/config'

const TEST_MS = 120_000
const HOOK_MS = 180_000
const PACKETS = 'test/cluster/packets.*.test.ts'
const GITOPS = ['test/cluster/gitops.apply.test.ts', 'test/cluster/gitops.definitions.test.ts']
const API = ['test/cluster/gitops.api.test.ts', 'test/cluster/gitops.egress.test.ts']
const HARNESS = 'test/cluster/harness/**'
const MACHINE = ['lifecycle', 'packets'].map((name) => `test/cluster/harness/${name}.test.ts`)
const WAITS = ['node-loss.*', 'identity-timing'].map((name) => `test/cluster/harness/${name}.test.ts`)
/**
 * A measurement of time may be repeated once, because other work on the machine can delay it. The gate lists the file as
 * flaky, as it does with a file that passes when it runs once more by itself.
 */
const TIMES = {
  count: 1,
  condition: /: expected [\d.]+ to be less than \d|^expected [\d.]+ to be less than \d/,
}

export default defineConfig({
  test: {
    reporters: ['default'],
    projects: [
      {
        test: {
          name: 'cluster',
          include: ['test/cluster/**/*.test.ts'],
          exclude: [HARNESS, PACKETS, ...GITOPS, ...API],
          globalSetup: ['test/cluster/helpers/cluster.setup.ts'],
          retry: TIMES,
          testTimeout: TEST_MS,
          hookTimeout: HOOK_MS,
          maxWorkers: 3,
          sequence: { groupOrder: 0 },
        },
      },
      {
        // These files measure whether a packet arrives in time, so they run alone.
        test: {
          name: 'packets',
          include: [PACKETS],
          globalSetup: ['test/cluster/helpers/packets.setup.ts'],
          retry: TIMES,
          testTimeout: TEST_MS,
          hookTimeout: HOOK_MS,
          fileParallelism: false,
          maxWorkers: 1,
          sequence: { groupOrder: 1 },
        },
      },
      {
        // A tree contains cluster-wide names, so each of these files starts its own cluster.
        test: {
          name: 'gitops',
          include: GITOPS,
          retry: TIMES,
          testTimeout: TEST_MS,
          hookTimeout: HOOK_MS,
          maxWorkers: 2,
          sequence: { groupOrder: 2 },
        },
      },
      {
        // How soon a replica takes over is what this measures.
        test: {
          name: 'api',
          include: API,
          retry: TIMES,
          testTimeout: TEST_MS,
          hookTimeout: HOOK_MS,
          maxWorkers: 1,
          sequence: { groupOrder: 3 },
        },
      },
      {
        // Each of these files uses its own clusters and nothing else of the machine.
        test: {
          name: 'harness',
          include: ['test/cluster/harness/*.test.ts'],
          exclude: [...MACHINE, ...WAITS],
          retry: TIMES,
          testTimeout: 300_000,
          hookTimeout: HOOK_MS,
          maxWorkers: 2,
          sequence: { groupOrder: 4 },
        },
      },
      {
        // These files compare the processes and mounts of the whole machine before and after, so they run alone.
        test: {
          name: 'machine',
          include: MACHINE,
          retry: TIMES,
          testTimeout: 300_000,
          hookTimeout: HOOK_MS,
          fileParallelism: false,
          maxWorkers: 1,
          sequence: { groupOrder: 5 },
        },
      },
      {
        // These wait for minutes, for the grace periods of Kubernetes and of Cilium, and do little else.
        test: {
          name: 'waits',
          include: WAITS,
          retry: TIMES,
          testTimeout: 900_000,
          hookTimeout: 300_000,
          maxWorkers: 2,
          sequence: { groupOrder: 6 },
        },
      },
    ],
  },
})
