import { expect, test } from 'vitest'
import { aRepository } from '../git/repository.ts'
import { runCli } from './run-cli.ts'
import { useServiceAtUrl } from './upload-rig.ts'

const { service } = useServiceAtUrl()
const at = () => ({ AGENTWEAVER_URL: service().url, AGENTWEAVER_API_KEY: service().apiKey })

test('sandbox create uploads a folder to a service at a URL, and its changes come back', async () => {
  const place = aRepository()
  place.shell('echo KEY=1 >.env; echo changed >>a.txt')
  const cli = (...argv: string[]) =>
    runCli(argv, { env: { ...at(), HOME: place.home, TMPDIR: place.folder }, cwd: place.folder })

  const created = await cli('sandbox', 'create', '-w', place.project)
  const id = created.stdout.trim()
  const found = await cli(
    'sandbox',
    'exec',
    id,
    'cat a.txt && ls -A && git log --format=%s && echo new >>a.txt',
  )
  const removed = await cli('sandbox', 'rm', id)
  const diff = await cli('diff', id)
  const applied = await cli('apply', id, place.project)

  expect(created.stderr).toMatch(/Uploading [\s\S]*\.env\n[\s\S]*The folder is uploaded\./)
  expect(id).toMatch(/^sbx_[0-9a-f]{32}$/)
  expect([found.status, found.stdout]).toEqual([0, expect.stringContaining('changed\n')])
  expect(found.stdout).not.toContain('.env')
  expect(found.stdout).toContain('first')
  expect(removed.status).toBe(0)
  expect(diff.stdout).toContain('+new')
  expect([applied.status, applied.stdout]).toEqual([0, expect.stringContaining('merged')])
})

test('sandbox create refuses workspaces that a service at a URL cannot have, and makes no sandbox', async () => {
  const place = aRepository()
  const create = (...argv: string[]) => runCli(['sandbox', 'create', ...argv], { env: at() })
  const count = async () => (await service().client.listSandboxes({ limit: 100 })).items.length
  const before = await count()

  const isolated = await create('-w', place.project, '--isolated')
  const both = await create('-w', place.project, '--git', 'https://git.example.com/team/app')
  const ref = await create('--ref', 'main')
  const unlisted = await create('--git', 'https://git.example.com/team/app')

  expect([isolated.status, isolated.stderr]).toEqual([
    2,
    expect.stringContaining('only with your own service'),
  ])
  expect([both.status, both.stderr]).toEqual([2, expect.stringContaining('Give only one of')])
  expect([ref.status, ref.stderr]).toEqual([2, expect.stringContaining('--git URL')])
  expect([unlisted.status, unlisted.stderr]).toEqual([6, expect.stringMatching(/network|egress/)])
  expect(await count()).toBe(before)
})
