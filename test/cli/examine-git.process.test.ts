import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { examineGit } from '../../cli/doctor/examine-git.ts'
import { aFolder } from './run-cli.ts'

/** The finding of doctor for these git configuration files. */
async function examine({ user = '', machine = '' }: { user?: string; machine?: string }) {
  const folder = await aFolder('aw-git-config-')
  const places = { GIT_CONFIG_GLOBAL: join(folder, 'user'), GIT_CONFIG_SYSTEM: join(folder, 'machine') }
  await writeFile(places.GIT_CONFIG_GLOBAL, user)
  await writeFile(places.GIT_CONFIG_SYSTEM, machine)
  return examineGit({ env: { PATH: process.env['PATH'] ?? '', HOME: folder, ...places } })
}

const setting = (value: string) => `[safe]\n\tbareRepository = ${value}\n`

test('asks for safe.bareRepository=explicit, with the command to set it', async () => {
  expect(await examine({})).toMatchObject({
    state: 'advice',
    detail: expect.stringContaining('treats any folder that contains HEAD, objects and refs'),
    remedy: 'git config --global safe.bareRepository explicit',
  })
})

test.each([{ user: setting('explicit') }, { machine: setting('explicit') }])(
  'accepts the setting of the user or of the machine: %o',
  async (files) => {
    expect(await examine(files)).toMatchObject({ state: 'ok' })
  },
)

test('prefers the setting of the user to the one of the machine', async () => {
  expect(await examine({ user: setting('all'), machine: setting('explicit') })).toMatchObject({
    state: 'advice',
  })
})

test('reports which results are missing without git', async () => {
  expect(await examineGit({ env: { PATH: '/nowhere' } })).toMatchObject({
    state: 'missing',
    detail: expect.stringContaining('no diff and no branch'),
  })
})
