import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { PlanStep } from '../../contracts/agents.ts'
import { aFolder, runCli } from './run-cli.ts'
import { useServiceAtUrl } from './upload-rig.ts'

const at = useServiceAtUrl()

const tool = (name: string, args: Record<string, unknown>): PlanStep => ({
  ...{ kind: 'tool', tool: name, arguments: args },
})
const turn = (command: string) => [
  tool('run_command', { command }),
  tool('report_outcome', { outcome: 'succeeded' }),
]

test('a fork at a URL uploads the folder of --workspace and works on it', async () => {
  const folder = await aFolder('aw-fork-upload-')
  const project = await aFolder('aw-fork-project-')
  writeFileSync(join(folder, 'plan.json'), JSON.stringify({ turns: [turn('true'), turn('cat mine.txt')] }))
  writeFileSync(join(project, 'mine.txt'), 'from my machine\n')
  const { url, apiKey } = at.service()
  const env = { AGENTWEAVER_URL: url, AGENTWEAVER_API_KEY: apiKey, HOME: folder }
  const call = (...argv: string[]) => runCli(argv, { env, cwd: folder })
  const { stderr } = await call('run', 'begin', '--empty-workspace', '--plan', 'plan.json')
  const source = /run_[0-9a-f]{32}/.exec(stderr)?.[0] ?? ''

  const forked = await call('fork', source, 'go on', '-w', project)

  expect(forked).toMatchObject({ status: 0, stdout: expect.stringContaining('from my machine') })
  expect(forked.stderr).toContain('Uploading 1 file')
})
