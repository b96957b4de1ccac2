import { expect, it, onTestFinished } from 'vitest'
import type { EgressGeneration } from '../../contracts/egress.ts'
import { EgressProxy } from '../../runtime/egress/proxy.ts'

const caller = {
  runId: 'run_1',
  generation: 1,
  caller: 'commands',
  podUid: 'pod-1',
  address: '10.0.0.1',
} as const
const generationOf = (uid: string): EgressGeneration => ({
  ...{ runId: 'run_1', generation: 1, phase: 'work', destinations: [] },
  pod: { uid, addresses: ['10.0.0.1'] },
})

function startProxy() {
  const proxy = new EgressProxy({ report: () => undefined })
  onTestFinished(() => proxy.close())
  return proxy
}

it('holds a caller whose sandbox is not listed yet until a state lists it', async () => {
  const proxy = startProxy()
  let isListed = false
  const waiting = proxy.untilListed(caller, 600_000).then(() => {
    isListed = true
  })

  await proxy.apply({ revision: 1, generations: [] })
  // The same sandbox in another pod is another sandbox.
  await proxy.apply({ revision: 2, generations: [generationOf('pod-2')] })
  await new Promise(setImmediate)
  expect(isListed).toBe(false)
  await proxy.apply({ revision: 3, generations: [generationOf('pod-1')] })

  await waiting
})

it('holds a caller that no state lists no longer than it may', async () => {
  await startProxy().untilListed(caller, 1)
})
