import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { startOwnService } from './own-service.ts'
import { aFolder, runCli, untilQuiet } from './run-cli.ts'

const TASK = 'a task that only ada knows'

test('data exports what the service has of a person, and erases it for good', async () => {
  const folder = await aFolder('aw-cli-data-')
  const service = await startOwnService(folder)
  const at = { AGENTWEAVER_URL: service.url }
  const root = { env: { ...at, AGENTWEAVER_API_KEY: service.apiKey } }
  try {
    const { key } = await service.client.createApiKey({ name: 'laptop', owner: 'ada' })
    const ada = { env: { ...at, AGENTWEAVER_API_KEY: key } }
    const plan = join(folder, 'plan.json')
    writeFileSync(plan, JSON.stringify({ turns: [[]] }))
    await runCli(['run', TASK, '--empty-workspace', '--plan', plan, '--json'], ada)

    const exported = await runCli(['data', 'export'], ada)
    const foreign = await runCli(['data', 'erase', '--owner', 'ada', '--yes'], ada)
    const unasked = await runCli(['data', 'erase', '--owner', 'ada'], root)
    const erased = await runCli(['data', 'erase', '--owner', 'ada', '--yes'], root)
    const after = await runCli(['whoami'], ada)
    const left = await runCli(['data', 'export', '--owner', 'ada'], root)
    const verified = await runCli(['audit', 'verify'], root)

    const types = exported.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line).type)
    expect([exported.status, types[0], types.at(-1)]).toEqual([0, 'owner', 'end'])
    expect(exported.stdout).toContain(TASK)
    expect(exported.stdout).not.toContain(key)
    expect([foreign.status, foreign.stderr]).toEqual([6, expect.stringContaining('Only an operator')])
    expect([unasked.status, unasked.stderr]).toEqual([2, expect.stringContaining('--yes')])
    expect([erased.status, erased.stdout]).toEqual([
      0,
      expect.stringMatching(/^Erased 1 run with .* and 1 key\.\n$/),
    ])
    expect(after.status).toBe(4)
    expect(left.stdout.trim().split('\n')).toHaveLength(2)
    expect(verified.status).toBe(0)
  } finally {
    await service.stop()
    await untilQuiet(folder)
  }
  const files = ['store.db', 'store.db-wal'].map((name) => {
    try {
      return readFileSync(join(folder, 'state', name), 'latin1')
    } catch {
      return ''
    }
  })
  expect(files[0]?.includes('run.erased'), 'a control').toBe(true)
  expect(files.join('').includes(TASK)).toBe(false)
})
