import { createHash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { describe, expect, it } from 'vitest'
import { startHostOnSocket } from './process-rig.ts'

const soon = () => AbortSignal.timeout(60_000)
const sha256 = (content: string) => createHash('sha256').update(content).digest('hex')

describe('the parts of a workspace through AgentHost', () => {
  it('are listed by POST /workspace/manifest and returned by POST /workspace/pack', async () => {
    const { client, workspace, configure } = await startHostOnSocket()
    writeFileSync(join(workspace, 'a'), 'hello')
    await configure()

    const manifest = await text(await client.getManifest(soon()))
    const pack = await text(await client.getPack([sha256('hello')], soon()))

    expect(JSON.parse(manifest)).toMatchObject({ kind: 'file', path: 'a', size: 5, sha256: sha256('hello') })
    expect(pack).toBe('hello')
  })

  it('are refused with a reason: an unknown digest, a malformed one, no run', async () => {
    const { client, configure } = await startHostOnSocket()
    await expect(client.getManifest(soon())).rejects.toMatchObject({ code: 'not_configured' })
    await configure()

    await expect(client.getPack([sha256('other')], soon())).rejects.toMatchObject({
      code: 'workspace_invalid',
      message: expect.stringContaining(sha256('other')),
    })
    await expect(client.getPack(['../../etc/passwd'], soon())).rejects.toMatchObject({
      code: 'invalid_request',
    })
  })
})
