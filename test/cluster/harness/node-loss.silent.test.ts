import { describe, expect, it } from 'vitest'
import { whyNoNodes } from '../../../devcluster/host/privileges.ts'
import { useLosableNode } from './lost-node.ts'

describe.skipIf(whyNoNodes() !== undefined)('a run whose node is lost', () => {
  const { space, plug, untilReady, isThere, untilGone, runThrough } = useLosableNode()

  it('ends as sandbox_lost when the node stops responding, and leaves nothing when the node is back', async () => {
    const { seconds, podUid, ended } = await runThrough(() => plug('nomaster'))
    const wasThere = await isThere(podUid)
    await plug('master', 'br0')
    await untilReady()
    await untilGone(podUid)

    process.stderr.write(`a run ended ${seconds} s after its node fell silent\n`)
    expect(ended).toMatchObject({ state: 'failed', failure: { code: 'sandbox_lost' } })
    expect(wasThere, 'nobody can delete a pod while its node is away').toBe(true)
    await space.nothingLeft()
  })
})
