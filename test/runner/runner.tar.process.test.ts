import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { anArchive } from '../workspace/archive-fixture.ts'
import { aRunner } from './runner-fixture.ts'

describe('archives through a runner', () => {
  it('carry a workspace from one runner to another', async () => {
    const from = await aRunner()
    const to = await aRunner()
    const tree =
      'find . -type f -exec sha256sum {} + | sort; find . -type l -exec readlink {} +; stat -c "%a %n" tool'
    await from.run(
      'mkdir -p a/b; head -c 5000000 /dev/urandom > a/b/large; echo x > tool; chmod 750 tool; ln -s a/b l',
    )

    const done = await to.link.tarIn(from.link.tarOut())

    expect(done).toEqual({ entries: 5, bytes: 5_000_002 })
    expect((await to.run(tree)).stdout).toBe((await from.run(tree)).stdout)
  })

  it('wait for a slow reader', async () => {
    const { link, run } = await aRunner()
    await run('head -c 9000000 /dev/urandom > large')
    const archive = link.tarOut()
    const first = await archive.next()

    const file = await link.file({ op: 'stat', path: 'large' })
    const hash = createHash('sha256').update(first.value ?? '')
    let bytes = first.value?.length ?? 0
    for await (const chunk of archive) {
      hash.update(chunk)
      bytes += chunk.length
    }

    expect(file.result.ok, 'other calls go on meanwhile').toBe(true)
    expect(bytes).toBeGreaterThan(9_000_000)
  })

  it('stop when their reader stops', async () => {
    const { link, run } = await aRunner()
    await run('head -c 30000000 /dev/zero > large')

    for await (const _ of link.tarOut()) break

    expect((await run('echo alive')).stdout).toBe('alive\n')
  })

  it('report the rejected entry although the source never ends', async () => {
    const { link, run } = await aRunner()
    const hostile = await anArchive([{ name: '../evil', content: 'x' }])
    const endless = async function* () {
      yield hostile
      await new Promise(() => undefined)
    }

    const done = await link.tarIn(endless())

    expect(done.error).toMatchObject({ code: 'path_outside', message: expect.stringContaining('../evil') })
    expect((await run('ls -A . ..')).stdout).not.toContain('evil')
  })

  it('forward errors of their source, and the runner continues', async () => {
    const { link, run } = await aRunner()
    const broken = async function* () {
      yield Buffer.alloc(100)
      throw new Error('the upload broke')
    }

    await expect(link.tarIn(broken())).rejects.toThrow('the upload broke')

    expect((await run('echo alive')).stdout).toBe('alive\n')
  })

  it('end when they are cancelled', async () => {
    const { link, run } = await aRunner()
    const abort = new AbortController()
    const waiting = async function* () {
      yield await anArchive([{ name: 'a', content: 'x' }])
      abort.abort(new Error('no longer wanted'))
      await new Promise(() => undefined)
    }

    await expect(link.tarIn(waiting(), abort.signal)).rejects.toThrow('no longer wanted')

    expect((await run('echo alive')).stdout).toBe('alive\n')
  })
})
