import { execFileSync } from 'node:child_process'
import { chmod, cp, mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { findEarlierFolders } from '../../runtime/state-folder/earlier-folder.ts'
import { aFolder, runCli } from '../cli/run-cli.ts'
import { makeEarlierState, seal } from './earlier-state.ts'

async function aProject() {
  const [home, project] = [await aFolder('aw-home-'), await aFolder('aw-project-')]
  return { home, project, state: await makeEarlierState(project, home) }
}

test('the state of an earlier version is found from its folder, from any below it, and at home', async () => {
  const { home, project, state } = await aProject()
  const atHome = await makeEarlierState(home, home)

  expect(findEarlierFolders(project, home)).toEqual({ found: [state, atHome], ignored: [] })
  expect(findEarlierFolders(join(project, 'deep', 'er'), home).found).toEqual([state, atHome])
  expect(findEarlierFolders('/', home).found).toEqual([atHome])
})

test('a folder that contains only project settings is not an earlier state folder', async () => {
  const { home } = await aProject()
  const project = await aFolder('aw-settings-')
  await mkdir(join(project, '.agentweaver'))
  await writeFile(join(project, '.agentweaver', 'settings.yml'), 'shell_enabled: true\n')

  expect(findEarlierFolders(project, home)).toEqual({ found: [], ignored: [] })
})

test.each<[string, (state: string) => Promise<unknown>]>([
  ['can be used by others', (state) => chmod(state, 0o750)],
  ['seal in it: it can be used by others', (state) => chmod(join(state, 'seal'), 0o640)],
  ['it was not created here by a service', (state) => rm(join(state, 'seal'))],
  [
    'it was not created here by a service',
    async (state) => {
      await rename(state, `${state}-real`)
      await cp(`${state}-real`, state, { recursive: true })
      await chmod(state, 0o700)
    },
  ],
  [
    'it is a link',
    async (state) => {
      await rename(state, `${state}-real`)
      await symlink(`${state}-real`, state)
    },
  ],
  [
    'cannot be read (ELOOP)',
    async (state) => {
      await rename(join(state, 'seal'), join(state, 'real'))
      await symlink('real', join(state, 'seal'))
    },
  ],
  [
    'not a file of a service',
    async (state) => {
      await rm(join(state, 'seal'))
      execFileSync('mkfifo', ['-m', '600', join(state, 'seal')])
    },
  ],
])('a folder that another user may have created or changed is skipped: %s', async (reason, touch) => {
  const { home, project, state } = await aProject()
  expect(findEarlierFolders(project, home).found).toEqual([state])

  await touch(state)

  const { found, ignored } = findEarlierFolders(project, home)
  expect(found).toEqual([])
  expect(ignored).toEqual([{ path: state, reason: expect.stringContaining(reason) }])
})

// Only root can give a folder to another user.
test.skipIf(process.getuid?.() !== 0)('a folder of another user is passed over', async () => {
  const { home, project, state } = await aProject()

  execFileSync('chown', ['-R', '65534', state])

  expect(findEarlierFolders(project, home).ignored).toEqual([
    { path: state, reason: 'it belongs to another user' },
  ])
})

test('a folder that a command in a sandbox made, knowing its numbers, is not believed', async () => {
  const { home, project, state } = await aProject()

  await seal(state, await aFolder('aw-attacker-'))

  expect(findEarlierFolders(project, home).found).toEqual([])
})

test('a rejected folder hides no folder above it', async () => {
  const { home, project, state } = await aProject()
  const inner = join(project, 'inner')
  await mkdir(inner)
  await cp(state, join(inner, '.agentweaver'), { recursive: true })

  const { found, ignored } = findEarlierFolders(inner, home)

  expect(found).toEqual([state])
  expect(ignored.map(({ path }) => path)).toEqual([join(inner, '.agentweaver')])
})

test('a folder that a repository brought is not moved, offered or used, and the commands say so', async () => {
  const [home, project] = [await aFolder('aw-home-'), await aFolder('aw-brought-')]
  const state = await makeEarlierState(project, await aFolder('aw-attacker-'))
  const settings = { env: { HOME: home }, cwd: project }

  const [move, config, doctor] = await Promise.all([
    runCli(['move-state'], settings),
    runCli(['config', '--json'], settings),
    runCli(['doctor'], settings),
  ])

  expect({ status: move.status, stderr: move.stderr }).toEqual({
    status: 2,
    stderr: expect.stringContaining('No state of an earlier version'),
  })
  expect(JSON.parse(config.stdout).earlier).toEqual({
    found: [],
    ignored: [{ path: state, reason: expect.stringContaining('it was not created here by a service') }],
  })
  expect(doctor.stdout.replaceAll(/\s+/g, ' ')).toContain('it was not created here by a service')
})
