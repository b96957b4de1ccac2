import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    exclude: ['test/cluster/**', 'test/pulumi/cli/**', 'test/attack/**'],
    globalSetup: ['test/helpers/postgres.setup.ts'],
    // One more than a small machine has processors: many tests wait for processes that they started.
    maxWorkers: 3,
    // Only what hangs meets these: a machine that does other work too may be ten times slower.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    expect: { poll: { timeout: 60_000 } },
  },
})
