import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    exclude: ['test/cluster/**', 'test/pulumi/cli/**'],
    globalSetup: ['test/helpers/postgres.setup.ts'],
    // One more than a small machine has processors: many tests wait for processes that they started.
    maxWorkers: 3,
    testTimeout: 30_000,
    hookTimeout: 60_000,
  },
})
