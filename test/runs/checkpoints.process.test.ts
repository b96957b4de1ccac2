import { DatabaseSync } from 'node:sqlite'
import { describe, expect, it } from 'vitest'
import { until } from '../helpers/until.ts'
import { alice, aRun, dataOf, follow, shell, tool, useService } from './service-rig.ts'

const service = useService()

/** Digests of the contents that the store has. */
function contentsOf({ config }: ReturnType<typeof service>): Set<string> {
  const database = new DatabaseSync(config.store.kind === 'sqlite' ? config.store.file : '')
  const rows = database.prepare("select sha256 from contents where state = 'complete'").all()
  database.close()
  return new Set(rows.map((row) => `${row['sha256']}`))
}

const report = tool('report_outcome', { outcome: 'succeeded' })

/** An interactive run of several turns over an empty workspace. */
async function talks(turns: Parameters<typeof aRun>[1][]) {
  const { service: runs, store } = service()
  const change = { interactive: true, workspace: { kind: 'empty' } as const }
  const agent = { kind: 'scripted', plan: { turns } } as const
  const { id } = await runs.startRun(alice, aRun('/', [], { ...change, agent }))
  const waits = () =>
    until('the run waits for a turn', async () => {
      const run = await runs.readRun(alice, id)
      return run.state === 'waiting' && (await store.readCheckpoint(id))?.session !== undefined
    })
  await waits()
  return { id, waits }
}

describe('the checkpoint of a run', () => {
  it('stores no part of a workspace in which a turn changed nothing', async () => {
    const { service: runs, store } = service()
    const write = shell('mkdir a; echo one > a/1; head -c 3000000 /dev/urandom > large; chmod 750 a/1')
    const { id, waits } = await talks([[write], [shell('cat a/1 > /dev/null')], [report]])
    const first = await store.readCheckpoint(id)
    const before = contentsOf(service())

    await runs.startTurn(alice, id, { prompt: 'go on', final: false })
    await until('the second turn is saved', async () => (await store.readCheckpoint(id))?.at !== first?.at)
    await waits()
    const second = await store.readCheckpoint(id)

    expect(first?.workspace?.kind).toBe('manifest')
    expect(second?.workspace).toEqual(first?.workspace)
    expect([...contentsOf(service())].filter((sha256) => !before.has(sha256))).toEqual([second?.session])
    await runs.startTurn(alice, id, { prompt: 'end', final: true })
    await follow(runs, id)
  })

  it('restores files, modes, times, folders and links in the next sandbox', async () => {
    const { service: runs } = service()
    const look =
      '(find . -type f -exec sha256sum {} + | sort; find . -exec stat -c "%A %n" {} + | sort; stat -c %Y old; readlink l) > /tmp/look; cat /tmp/look'
    const write = shell(
      'mkdir -p a/b empty; echo one > a/b/1; head -c 2000000 /dev/urandom > large; touch none; chmod 750 a/b/1; chmod 500 a/b; ln -s a/b l; touch -d @1000000000 old',
    )
    const { id } = await talks([
      [write, shell(look)],
      [shell(look), report],
    ])
    await runs.suspend(alice, id)

    await runs.startTurn(alice, id, { prompt: 'go on', final: true })
    const events = await follow(runs, id)

    expect(dataOf(events, 'run.resumed')).toEqual([{ generation: 2 }])
    const looks = dataOf(events, 'tool.result').flatMap(({ tool: name, outcome }) =>
      name === 'run_command' && outcome.ok && outcome.content.includes('large') ? [outcome.content] : [],
    )
    expect(looks).toHaveLength(2)
    expect(looks[0]).toContain('drwx')
    expect(looks[0]).toContain('1000000000')
    expect(looks[1]).toBe(looks[0])
  })
})
