import { expect, it } from 'vitest'
import { alice, aRun, dataOf, follow, shell, typesOf, useService } from './service-rig.ts'

const started = useService()

it('tells who watches a run that its workspace becomes full, before a command is stopped', async () => {
  const { service, aWorkspace } = started()
  const fill = shell('while :; do head -c 4194304 /dev/zero >> much; sleep 0.1; done', {
    timeout_ms: 120_000,
  })
  const policy = { max_workspace_bytes: 67_108_864 }

  const run = await service.startRun(alice, aRun(aWorkspace(), [fill, shell('rm much')], { policy }))
  const events = await follow(service, run.id)

  const usage = dataOf(events, 'workspace.usage')
  expect(usage[0]).toMatchObject({ maxBytes: 67_108_864, maxFiles: 1_000_000, isComplete: true })
  expect(usage.map(({ level }) => level)).toContain(95)
  const types = typesOf(events)
  expect(types.indexOf('workspace.usage')).toBeLessThan(types.indexOf('tool.result'))
  expect(dataOf(events, 'tool.result')[0]?.outcome).toMatchObject({
    content: expect.stringContaining('max_workspace_bytes allows 64 MiB'),
  })
})
