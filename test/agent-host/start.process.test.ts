import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, it } from 'vitest'
import { createLog } from '../../runtime/kit/log.ts'
import { bundledHost } from '../helpers/bundled-host.ts'
import { until } from '../helpers/until.ts'
import { startHostOnSocket } from './process-rig.ts'

const ROOT = join(import.meta.dirname, '../..')
const SOURCES = join(ROOT, 'runtime/agent-host/server.ts')

it.each(['the sources', 'the bundle'])(
  'reaches standby, prepares for a run and accepts one when started from %s',
  async (program) => {
    const messages: string[] = []
    const log = createLog({
      level: 'debug',
      write: (text) => {
        const { line } = JSON.parse(text)
        if (line?.startsWith('{')) messages.push(JSON.parse(line).message)
      },
    })
    const entry = program === 'the bundle' ? await bundledHost() : SOURCES

    const host = await startHostOnSocket({ log, logLevel: 'debug', entry })
    await until('it has prepared for a run', () => messages.includes('settled'))

    expect(messages).toEqual(['waiting for the runner', 'standby', 'settled'])
    await host.configure({ agent: { kind: 'none' } })
  },
)

it('has no path of the machine that built it in its bundles', async () => {
  const folder = dirname(dirname(await bundledHost()))

  for (const name of ['agent-host', 'runner']) {
    const text = readFileSync(join(folder, name, 'server.cjs'), 'utf8')
    expect(text).toContain('AGENTWEAVER_RUNNER_')
    expect(text).not.toContain(ROOT)
  }
})
