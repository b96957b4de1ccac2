import { createHash } from 'node:crypto'
import { text } from 'node:stream/consumers'
import { describe, expect, it } from 'vitest'
import { ManifestEntry } from '../../contracts/workspace-manifest.ts'
import { aRunner } from './runner-fixture.ts'

const sha256 = (content: string) => createHash('sha256').update(content).digest('hex')

describe('a manifest through a runner', () => {
  it('lists what commands wrote, and a pack of it has their contents', async () => {
    const { link, run } = await aRunner()
    await run('mkdir a; printf one > a/1; printf two > 2; head -c 3000000 /dev/zero > large')
    const lines = (await text(link.manifest())).trimEnd().split('\n')

    const entries = lines.map((line) => ManifestEntry.parse(JSON.parse(line)))
    const large = sha256('\0'.repeat(3_000_000))
    const pack = await text(link.pack([sha256('two'), large, sha256('one')]))

    expect(entries.map(({ path }) => path)).toEqual(['2', 'a', 'large', 'a/1'])
    expect(entries.find(({ path }) => path === 'large')).toMatchObject({ size: 3_000_000, sha256: large })
    expect(pack).toBe(`two${'\0'.repeat(3_000_000)}one`)
  })

  it('fails a pack of a digest that is not in the manifest, and the runner continues', async () => {
    const { link, run } = await aRunner()
    await run('printf one > 1')
    await text(link.manifest())

    await expect(text(link.pack([sha256('other')]))).rejects.toMatchObject({ code: 'workspace_invalid' })

    expect((await run('echo alive')).stdout).toBe('alive\n')
  })

  it('stops when its reader stops', async () => {
    const { link, run } = await aRunner()
    await run('head -c 30000000 /dev/zero > large')
    await text(link.manifest())

    for await (const _ of link.pack([sha256('\0'.repeat(30_000_000))])) break

    expect((await run('echo alive')).stdout).toBe('alive\n')
  })
})
