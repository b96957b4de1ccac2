import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { whyNoNodes } from '../../../devcluster/host/privileges.ts'
import { waitUntil } from '../../../devcluster/host/wait-until.ts'
import { type Finished, runCommand } from './command.ts'

const PAGE = join(import.meta.dirname, '..', '..', '..', 'docs', 'local-cluster.md')
const PREFIX = 'npm run cluster -- '

/** The commands of the page's first block as arguments of our command, without the npm prefix. */
function firstBlock(): string[][] {
  const [, block = ''] = /```sh\n([\s\S]*?)```/.exec(readFileSync(PAGE, 'utf8')) ?? []
  const lines = block.trim().split('\n')
  expect(lines[0]).toBe('npm ci')
  return lines.filter((line) => line.startsWith(PREFIX)).map((line) => line.slice(PREFIX.length).split(/\s+/))
}

describe.skipIf(whyNoNodes() !== undefined)('the page about the local cluster', () => {
  let slot = ''
  const about = (command: string, ...rest: string[]) => runCommand([command, '--cluster', slot, ...rest])
  afterAll(async () => {
    await about('down')
  })

  it('sets up a pool of gVisor sandboxes in three commands', async () => {
    const [up = [], apply = [], ...more] = firstBlock()
    expect(more).toEqual([])

    const started = await runCommand(up)
    slot = /cluster (\d+) is ready/.exec(started.output)?.[1] ?? ''
    const applied: Finished = await about(apply[0] ?? '', ...apply.slice(1))

    expect(applied).toMatchObject({ code: 0 })
    await waitUntil({ what: 'three ready sandboxes', timeoutMs: 60_000, everyMs: 250 }, async () => {
      const { output } = await about(
        'exec',
        'kubectl',
        'get',
        'sandboxwarmpool',
        'demo',
        '-o',
        'jsonpath={.status.readyReplicas}',
      )
      return output === '3'
    })
    const { output } = await about(
      'exec',
      'sh',
      '-c',
      'kubectl exec $(kubectl get pod -o name | head -1) -- cat /proc/version',
    )
    expect(output).toMatch(/gvisor/)
  })
})
