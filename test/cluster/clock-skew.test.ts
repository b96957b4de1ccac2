import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { describeWith } from './helpers/features.ts'
import { useServiceSpace } from './helpers/service-space.ts'

const SKEWED = fileURLToPath(new URL('../fixtures/skewed-clock.mjs', import.meta.url))
const RUN_MS = 90_000

/** Difference between the clocks of service and pods in seconds. With more than a minute they cannot work together. */
const CASES: readonly (readonly [string, number, object])[] = [
  ['55 s behind', -55, { state: 'succeeded' }],
  ['55 s ahead', 55, { state: 'succeeded' }],
  // The reader's clock is behind, so the pod's identity token appears to be issued in the future.
  ['three minutes behind', -180, { state: 'failed', failure: { code: 'identity_mismatch' } }],
  // The pod rejects a ticket from so far in the future.
  ['three minutes ahead', 180, { state: 'failed', failure: { code: 'configure_rejected' } }],
]

for (const [name, seconds, ending] of CASES) {
  describeWith(['agent-sandbox', 'real node'], `a service whose clock is ${name}`, () => {
    const space = useServiceSpace({
      runtimeClass: undefined,
      replicas: { agent: 1, command: 0 },
      settings: async () => ({
        NODE_OPTIONS: `--import=${SKEWED}`,
        TEST_CLOCK_SKEW_MS: String(seconds * 1000),
      }),
    })

    it(`ends its runs as ${JSON.stringify(ending)} and leaves no objects`, async () => {
      await space.waitForPool('agent')
      const { id } = await space.client().startRun({
        task: 'say hello',
        workspace: { kind: 'empty' },
        agent: { kind: 'scripted', plan: { turns: [[{ kind: 'say', text: 'hello' }]] } },
      })
      for await (const _event of space.client().streamEvents(id, { signal: AbortSignal.timeout(RUN_MS) }));

      const run = await space.client().readRun(id)
      expect(run).toMatchObject(ending)
      const offBy = Math.round((Date.parse(run.createdAt) - Date.now()) / 10_000) * 10
      expect(Math.abs(offBy - seconds), 'the clock is off by so much').toBeLessThanOrEqual(RUN_MS / 1000)
      expect(Math.sign(offBy)).toBe(Math.sign(seconds))
      await space.nothingLeft()
    })
  })
}
