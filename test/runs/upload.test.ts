import { buffer } from 'node:stream/consumers'
import { extract, pack } from 'tar-stream'
import { expect, it } from 'vitest'
import { CreateSandbox, StartCommand } from '../../contracts/api.ts'
import { until } from '../helpers/until.ts'
import { alice, aRun, dataOf, follow, shell, useService } from './service-rig.ts'

const use = useService()

async function anArchive(files: Record<string, string>): Promise<AsyncIterable<Uint8Array>> {
  const archive = pack()
  for (const [name, content] of Object.entries(files)) archive.entry({ name }, content)
  archive.finalize()
  return archive as AsyncIterable<Uint8Array>
}

async function filesOf(archive: AsyncIterable<Uint8Array>): Promise<Record<string, string>> {
  const entries = extract()
  entries.end(await buffer(archive as unknown as NodeJS.ReadableStream))
  const files: Record<string, string> = {}
  for await (const entry of entries) {
    const content = await buffer(entry)
    if (entry.header.type === 'file') files[entry.header.name.replace(/^\.\//, '')] = content.toString('utf8')
  }
  return files
}

it('starts when the workspace is uploaded, works on it, and gives it back when the run is over', async () => {
  const { service } = use()
  const run = await service.startRun(alice, {
    ...aRun('/', [shell('tr a-z A-Z < in.txt > out.txt')]),
    workspace: { kind: 'upload' },
  })
  expect(run.state).toBe('awaiting_upload')

  await service.uploadWorkspace(alice, run.id, await anArchive({ 'in.txt': 'hello\n' }))
  const events = await follow(service, run.id)

  expect(dataOf(events, 'done')).toEqual([{ state: 'succeeded' }])
  expect((await service.readRun(alice, run.id)).checkpointAt).toBeDefined()
  const files = await filesOf(await service.downloadWorkspace(alice, run.id))
  expect(files).toEqual({ 'in.txt': 'hello\n', 'out.txt': 'HELLO\n' })
})

it('takes a workspace once', async () => {
  const { service } = use()
  const run = await service.startRun(alice, { ...aRun('/', []), workspace: { kind: 'upload' } })
  await service.uploadWorkspace(alice, run.id, await anArchive({ a: '1' }))

  const again = service.uploadWorkspace(alice, run.id, await anArchive({ a: '2' }))

  await expect(again).rejects.toMatchObject({ code: 'conflict' })
  await follow(service, run.id)
})

it('lets the settings that the archive brings tighten the run', async () => {
  const { service } = use()
  const run = await service.startRun(alice, { ...aRun('/', [shell('true')]), workspace: { kind: 'upload' } })

  await service.uploadWorkspace(
    alice,
    run.id,
    await anArchive({ '.agentweaver/settings.yml': 'shell_enabled: false\n' }),
  )
  const events = await follow(service, run.id)

  expect(dataOf(events, 'tool.denied')[0]).toMatchObject({ tool: 'run_command', by: 'policy' })
})

it('refuses an archive whose settings are malformed, with line and reason, and goes on waiting', async () => {
  const { service } = use()
  const run = await service.startRun(alice, { ...aRun('/', []), workspace: { kind: 'upload' } })

  const upload = service.uploadWorkspace(
    alice,
    run.id,
    await anArchive({ '.agentweaver/settings.yml': 'shel_enabled: no\n' }),
  )

  await expect(upload).rejects.toMatchObject({
    code: 'workspace_invalid',
    message: expect.stringContaining('line 1'),
  })
  expect((await service.readRun(alice, run.id)).state).toBe('awaiting_upload')
  await service.cancel(alice, run.id)
})

it('fails the run when a member of the archive leads outside', async () => {
  const { service } = use()
  const run = await service.startRun(alice, { ...aRun('/', []), workspace: { kind: 'upload' } })

  await service.uploadWorkspace(alice, run.id, await anArchive({ '../evil.txt': 'x' }))
  const events = await follow(service, run.id)

  expect(dataOf(events, 'run.failed')[0]?.message).toContain('evil.txt')
})

it('gives a sandbox its workspace as an archive while it serves and after it has ended', async () => {
  const { service } = use()
  const sandbox = await service.createSandbox(alice, CreateSandbox.parse({}))
  await service.startCommand(alice, sandbox.id, StartCommand.parse({ command: 'echo kept > x.txt' }))
  const events = () => service.readEvents(alice, sandbox.id, { after: 0, limit: 100 })
  await until('the command has ended', async () => dataOf(await events(), 'command.exited').length > 0)

  const files = await filesOf(await service.downloadWorkspace(alice, sandbox.id))
  await service.destroySandbox(alice, sandbox.id)
  await follow(service, sandbox.id)
  const kept = await filesOf(await service.downloadWorkspace(alice, sandbox.id))

  expect(files).toEqual({ 'x.txt': 'kept\n' })
  expect(kept).toEqual({ 'x.txt': 'kept\n' })
})
