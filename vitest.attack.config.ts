import { defineConfig } from 'vitest/config'

/** Long runs, such as other people's tools against the service: `npm run test:attack`. Not part of `npm test`. */
export default defineConfig({
  test: {
    include: ['test/attack/**/*.test.ts'],
    fileParallelism: false,
    testTimeout: 1_800_000,
    hookTimeout: 600_000,
  },
})
