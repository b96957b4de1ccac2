import { defineConfig } from 'vitest/config'

const TEST_MS = 120_000
const HOOK_MS = 180_000
const PACKETS = 'test/cluster/packets.*.test.ts'
const GITOPS = ['test/cluster/gitops.apply.test.ts', 'test/cluster/gitops.definitions.test.ts']
const API = 'test/cluster/gitops.api.test.ts'
const HARNESS = 'test/cluster/harness/**'
const MACHINE = ['lifecycle', 'packets'].map((name) => `test/cluster/harness/${name}.test.ts`)
const WAITS = ['node-loss.*', 'identity-timing'].map((name) => `test/cluster/harness/${name}.test.ts`)
/**
 * A time may be measured once more: other work on the machine is no fault of ours. The gate lists it as flaky. Whatever else
 * fails has failed.
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
          exclude: [HARNESS, PACKETS, ...GITOPS, API],
          globalSetup: ['test/cluster/helpers/cluster.setup.ts'],
          retry: TIMES,
          testTimeout: TEST_MS,
          hookTimeout: HOOK_MS,
          maxWorkers: 3,
          sequence: { groupOrder: 0 },
        },
      },
      {
        // Whether a packet arrives in time is what these measure, so nothing else works beside them.
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
        // A tree has names of the whole cluster in it, so each of these brings a cluster of its own.
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
          include: [API],
          retry: TIMES,
          testTimeout: TEST_MS,
          hookTimeout: HOOK_MS,
          maxWorkers: 1,
          sequence: { groupOrder: 3 },
        },
      },
      {
        // About clusters of their own, and nothing else of the machine.
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
        // These compare the whole machine before and after: nothing else may come and go beside them.
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
