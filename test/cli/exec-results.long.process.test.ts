import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type OwnService, startOwnService } from './own-service.ts'
import { runCli, untilQuiet } from './run-cli.ts'

let folder: string
let service: OwnService
let env: Record<string, string>

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'aw-exec-results-'))
  service = await startOwnService(folder, { AGENTWEAVER_WORKSPACE_ROOTS: folder })
  env = { AGENTWEAVER_STATE_DIR: join(folder, 'state') }
})

afterAll(async () => {
  await service.stop()
  await untilQuiet(folder)
  await rm(folder, { recursive: true })
})

test('exec runs in a new sandbox with the last files of a run that has none any more', async () => {
  const id = (await runCli(['sandbox', 'create'], { env })).stdout.trim()
  await runCli(['exec', id, 'echo kept > made'], { env })
  await runCli(['sandbox', 'rm', id], { env })

  const { status, stdout, stderr } = await runCli(['exec', id, 'cat made; echo more >> made; exit 7'], {
    env,
  })
  const again = await runCli(['exec', id, '--', 'cat', 'made'], { env })
  const listed = await runCli(['sandbox', 'ls', '--json'], { env })

  expect({ status, stdout }).toEqual({ status: 7, stdout: 'kept\n' })
  expect(stderr).toMatch(
    /The run has no sandbox\. The command runs in a new one with the last files of the run: sbx_/,
  )
  // Each command begins with the files of the run, and its sandbox is removed.
  expect(again.stdout).toBe('kept\n')
  expect(listed.stdout).not.toMatch(/"state":"(?:queued|starting|running|waiting)"/)
})

test("exec names the next step if the run worked on a folder of the service's machine", async () => {
  const workspace = join(folder, 'workspace')
  await mkdir(workspace)
  const plan = join(folder, 'plan.json')
  const steps = [{ kind: 'tool', tool: 'report_outcome', arguments: { outcome: 'succeeded' } }]
  await writeFile(plan, JSON.stringify({ turns: [steps] }))
  const started = await runCli(['run', 'a task', '-w', workspace, '--plan', plan, '--json'], { env })
  const { runId } = JSON.parse(started.stdout.split('\n')[0] ?? '')

  const { status, stderr } = await runCli(['exec', runId, '--', 'ls'], { env })

  expect(status).toBe(6)
  expect(stderr).toContain(`agentweaver sandbox create --workspace ${workspace}`)
})
