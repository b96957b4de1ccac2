import { setImmediate as nextTurn } from 'node:timers/promises'
import { runInNewContext } from 'node:vm'
import { expect, it, vi } from 'vitest'
import type { HostState } from '../../contracts/configure.ts'
import { collectInStandby } from '../../runtime/agent-host/collect-in-standby.ts'
import { createLog } from '../../runtime/kit/log.ts'
import { until } from '../helpers/until.ts'
import { startHostOnSocket } from './process-rig.ts'

/** What nothing holds any more, and whether it is still there. */
async function litter() {
  const refs = Array.from({ length: 100 }, () => new WeakRef({ text: 'left behind' }))
  await nextTurn()
  return () => refs.filter((ref) => ref.deref() !== undefined).length
}

it('collects all that is left behind, and leaves no switch for others', async () => {
  const left = await litter()

  await collectInStandby('standby')
  await nextTurn()

  expect(left()).toBe(0)
  expect(runInNewContext('typeof gc')).toBe('undefined')
})

it.each<HostState>(['starting', 'configuring', 'ready', 'failed', 'leaving'])(
  'does not collect while it is %s: somebody may wait',
  async (state) => {
    const collector = vi.fn()

    await collectInStandby(state, collector)

    expect(collector).not.toHaveBeenCalled()
  },
)

it('is done by a real AgentHost after it said standby, which serves on', async () => {
  const said: string[] = []
  const log = createLog({
    level: 'debug',
    write: (text) => {
      const { line } = JSON.parse(text)
      if (line?.startsWith('{')) said.push(JSON.parse(line).message)
    },
  })

  const host = await startHostOnSocket({ log, logLevel: 'debug' })
  await until('it has settled', () => said.includes('settled'))

  expect(said).toEqual(['waiting for the runner', 'standby', 'settled'])
  await host.configure({ agent: { kind: 'none' } })
})
