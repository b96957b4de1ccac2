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
  expect(run.state).toBe('waiting_upload')

  await service.uploadWorkspace(alice, run.id, await anArchive({ 'in.txt': 'hello\n' }))
  const events = await follow(service, run.id)

  expect(dataOf(events, 'done')).toEqual([{ state: 'succeeded' }])
  expect((await service.readRun(alice, run.id)).checkpointAt).toBeDefined()
  const files = await filesOf(await service.downloadWorkspace(alice, run.id, AbortSignal.timeout(600_000)))
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

it.each([
  ['no tar archive', async () => Buffer.from('this is no tar archive')],
  ['another format', async () => Buffer.alloc(2048, 0x1f)],
  ['a cut archive', async () => (await buffer((await anArchive({ a: '1' })) as never)).subarray(0, 400)],
])('refuses %s, and takes the workspace in another upload', async (_what, content) => {
  const { service } = use()
  const run = await service.startRun(alice, { ...aRun('/', [shell('cat a')]), workspace: { kind: 'upload' } })

  const refused = service.uploadWorkspace(alice, run.id, ReadableStream.from([await content()]) as never)

  await expect(refused).rejects.toMatchObject({
    code: 'workspace_invalid',
    message: expect.stringContaining('cannot be read as a tar archive'),
  })
  await service.uploadWorkspace(alice, run.id, await anArchive({ a: 'whole' }))
  expect(JSON.stringify(dataOf(await follow(service, run.id), 'tool.result'))).toContain('whole')
})

it('stays cancelled if the upload ends after the cancellation, and makes no claim', async () => {
  const { service, store } = use()
  const run = await service.startRun(alice, { ...aRun('/', [shell('true')]), workspace: { kind: 'upload' } })
  const rest = Promise.withResolvers<void>()
  const begun = Promise.withResolvers<void>()
  async function* slowly() {
    begun.resolve()
    await rest.promise
    yield* await anArchive({ a: '1' })
  }
  const uploaded = service.uploadWorkspace(alice, run.id, slowly())
  await begun.promise

  await service.cancel(alice, run.id)
  rest.resolve()

  await expect(uploaded).rejects.toMatchObject({ code: 'run_ended' })
  expect((await service.readRun(alice, run.id)).state).toBe('cancelled')
  const claims = await store.listClaims(['requested', 'bound', 'released'])
  expect(claims.filter(({ runId }) => runId === run.id)).toEqual([])
})

type Header = Parameters<ReturnType<typeof pack>['entry']>[0]

const SETTINGS = '.agentweaver/settings.yml'
const IGNORED = 'policy.settings_ignored'

/** A run of one command over an upload, with the settings that its request carries. */
async function uploaded(settings: string | undefined, archive: Record<string, string>) {
  const { service } = use()
  const run = await service.startRun(alice, {
    ...aRun('/', [shell('true')]),
    workspace: { kind: 'upload', ...(settings !== undefined && { settings }) },
  })
  await service.uploadWorkspace(alice, run.id, await anArchive(archive))
  return follow(service, run.id)
}

it('does not obey the settings of the archive, and reports them', async () => {
  const events = await uploaded(undefined, { [SETTINGS]: 'shell_enabled: false\n' })

  expect(dataOf(events, 'tool.denied')).toEqual([])
  expect(dataOf(events, IGNORED)).toEqual([{ path: SETTINGS, reason: 'added' }])
})

it('applies the settings of the request and ignores the settings in the archive', async () => {
  const events = await uploaded('shell_enabled: false\n', { [`./${SETTINGS}`]: 'shell_enabled: true\n' })

  expect(dataOf(events, 'tool.denied')[0]).toMatchObject({ tool: 'run_command', by: 'policy' })
  expect(dataOf(events, IGNORED)).toEqual([{ path: SETTINGS, reason: 'changed' }])
})

it('reports nothing if the archive has the same settings as the request', async () => {
  const text = 'shell_enabled: false\n'

  const events = await uploaded(text, { [SETTINGS]: text })

  expect(dataOf(events, 'tool.denied')).toHaveLength(1)
  expect(dataOf(events, IGNORED)).toEqual([])
})

it('reports an archive without the file that is in force', async () => {
  const events = await uploaded('redact_pii: true\n', { a: '1' })

  expect(dataOf(events, IGNORED)).toEqual([{ path: SETTINGS, reason: 'removed' }])
})

it('takes no settings from a request that would widen the policy of the deployment', async () => {
  const { service, store } = use()
  const settings = 'network_enabled: true\nredact_pii: false\nallowed_repository_roots: [/]\n'
  const workspace = { kind: 'upload', settings } as const

  const run = await service.startRun(alice, { ...aRun('/', []), workspace })

  const inForce = { ...(await service.readPolicy(alice)), require_outcome: false }
  expect((await store.readRun(run.id))?.settings).toEqual(inForce)
  expect(run.workspace).toEqual({ kind: 'upload' })
  await service.cancel(alice, run.id)
})

it('refuses a request whose settings are malformed, with line and reason', async () => {
  const { service } = use()
  const workspace = { kind: 'upload', settings: 'redact_pii: true\ndirect: true\n' } as const

  const started = service.startRun(alice, { ...aRun('/', []), workspace })

  await expect(started).rejects.toMatchObject({
    code: 'workspace_invalid',
    message: expect.stringMatching(/^workspace\.settings, line 2: direct: only the operator/),
  })
})

it.each([
  ['malformed', { name: SETTINGS, content: 'shel_enabled: no\n', message: /line 1: shel_enabled/ }],
  ['a link', { name: SETTINGS, type: 'symlink', linkname: 'other', message: /not a regular file/ }],
  ['a folder', { name: `${SETTINGS}/`, type: 'directory', message: /not a regular file/ }],
  [
    'too large',
    {
      name: './.agentweaver/./settings.yml',
      content: '#'.repeat(70_000),
      message: /larger than 65536 bytes/,
    },
  ],
] as [string, Header & { message: RegExp; content?: string }][])(
  'rejects an archive whose settings are %s, and keeps waiting',
  async (_what, { message, content = '', ...header }) => {
    const { service } = use()
    const run = await service.startRun(alice, { ...aRun('/', []), workspace: { kind: 'upload' } })
    const archive = pack()
    archive.entry(header, content)
    archive.finalize()

    const upload = service.uploadWorkspace(alice, run.id, archive as AsyncIterable<Uint8Array>)

    await expect(upload).rejects.toMatchObject({
      code: 'workspace_invalid',
      message: expect.stringMatching(message),
    })
    expect((await service.readRun(alice, run.id)).state).toBe('waiting_upload')
    await service.cancel(alice, run.id)
  },
)

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

  const files = await filesOf(
    await service.downloadWorkspace(alice, sandbox.id, AbortSignal.timeout(600_000)),
  )
  await service.destroySandbox(alice, sandbox.id)
  await follow(service, sandbox.id)
  const kept = await filesOf(await service.downloadWorkspace(alice, sandbox.id, AbortSignal.timeout(600_000)))

  expect(files).toEqual({ 'x.txt': 'kept\n' })
  expect(kept).toEqual({ 'x.txt': 'kept\n' })
})
