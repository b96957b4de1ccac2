import { describe, expect, it } from 'vitest'
import { whyNoNodes } from '../../../devcluster/host/privileges.ts'
import { useLosableNode } from './lost-node.ts'

describe.skipIf(whyNoNodes() !== undefined)('a run whose node is lost', () => {
  const { kill, takeOut, untilGone, runThrough } = useLosableNode()

  it('ends as sandbox_lost when the node dies, and leaves nothing when the node is removed', async () => {
    const { seconds, podUid, ended } = await runThrough(kill)
    await takeOut()
    await untilGone(podUid)

    process.stderr.write(`a run ended ${seconds} s after its node died\n`)
    expect(ended).toMatchObject({ state: 'failed', failure: { code: 'sandbox_lost' } })
  })
})
