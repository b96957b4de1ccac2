import { defineConfig } from 'vitest/config'

/** The lane with the real engine: one stack, whose tests follow each other; an `up` may take minutes. */
export default defineConfig({
  test: {
    include: ['test/pulumi/cli/**/*.test.ts'],
    fileParallelism: false,
    sequence: { concurrent: false, shuffle: false },
    bail: 1,
    testTimeout: 1_800_000,
    hookTimeout: 300_000,
  },
})
