import { existsSync, readdirSync } from 'node:fs'
import { mkdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { aFolder, runCli, startAtTerminal } from '../../cli/run-cli.ts'
import { API } from '../../helpers/built-programs.ts'
import { seal } from '../../state-folder/earlier-state.ts'
import { startService } from '../service-process.ts'

/** A project with the state of a real service, as earlier versions left it. */
async function aProject() {
  const [home, project] = [await aFolder('aw-home-'), await aFolder('aw-project-')]
  const old = join(project, '.agentweaver')
  const service = startService({ HOME: home, AGENTWEAVER_STATE_DIR: old })
  const { apiKeyFile } = await service.ready
  const apiKey = await readFile(apiKeyFile, 'utf8')
  service.child.kill('SIGTERM')
  await service.exited
  await seal(old, home)
  const env = { HOME: home, AGENTWEAVER_PORT: '0', AGENTWEAVER_LOCAL_WARM: '0' }
  return { home, project, old, apiKey, env, stateDir: join(home, '.local/state/agentweaver') }
}

const atTerminal = ({ env, project }: Awaited<ReturnType<typeof aProject>>) =>
  startAtTerminal([], { env, cwd: project }, API)

test('at a terminal it asks, and after a yes it moves the state and continues with it', async () => {
  const place = await aProject()
  await using terminal = atTerminal(place)

  await terminal.shows('Move it there?')
  expect(terminal.screen()).toContain(place.old)
  terminal.type('y\r')
  await terminal.shows('listens on http://127.0.0.1:')

  expect(existsSync(place.old)).toBe(false)
  expect(await readFile(join(place.stateDir, 'api-key'), 'utf8')).toBe(place.apiKey)
  // The key of the old store opens the moved store.
  expect((await runCli(['runs'], { env: { HOME: place.home }, cwd: '/' })).status).toBe(0)
  terminal.type('\u0003')
  expect(await terminal.exited).toBe(0)
})

test('after a no it starts with a new state, keeps the old one, and does not ask again', async () => {
  const place = await aProject()
  const before = readdirSync(place.old)
  {
    await using terminal = atTerminal(place)
    await terminal.shows('Move it there?')
    terminal.type('n\r')
    await terminal.shows('listens on')
    terminal.type('\u0003')
    expect(await terminal.exited).toBe(0)
  }
  await using again = atTerminal(place)
  await again.shows('listens on')

  expect(again.screen()).toContain(`Not used: the state of an earlier version in ${place.old}`)
  expect(again.screen()).not.toContain('Move it there?')
  expect(readdirSync(place.old)).toEqual(before)
  expect(await readFile(join(place.stateDir, 'api-key'), 'utf8')).not.toBe(place.apiKey)
})

test('without an answer it does not start and changes nothing', async () => {
  const place = await aProject()
  await using terminal = atTerminal(place)

  await terminal.shows('Move it there?')
  terminal.type('\u0003')

  expect(await terminal.exited).toBe(78)
  expect(existsSync(place.stateDir)).toBe(false)
  expect(existsSync(join(place.old, 'store.db'))).toBe(true)
})

test('without a terminal it prints the command for each decision, and each command works', async () => {
  const { env, project, old, stateDir, home } = await aProject()
  const start = (more: Record<string, string> = {}) => startService({ ...env, ...more }, undefined, project)

  const undecided = start()
  expect(await undecided.exited).toBe(78)
  expect(undecided.stderr()).toContain(`npx agentweaver move-state ${old} `)
  expect(undecided.stderr()).toContain(`AGENTWEAVER_STATE_DIR=${old} `)
  expect(undecided.stderr()).toContain(`AGENTWEAVER_STATE_DIR=${stateDir} `)
  expect(existsSync(stateDir)).toBe(false)

  const kept = start({ AGENTWEAVER_STATE_DIR: old })
  await kept.ready
  kept.child.kill('SIGTERM')
  await kept.exited
  const moved = await runCli(['move-state', old], { env: { HOME: home }, cwd: project })
  expect(moved.status, moved.stderr).toBe(0)
  const { socket } = await start().ready
  expect(socket).toBe(join(stateDir, 'service.sock'))
})

test('the command line starts no service while the state is undecided, and says what to do', async () => {
  const { env, project, old, stateDir } = await aProject()
  const workspace = join(project, 'workspace')
  await mkdir(workspace)
  const run = ['run', 'x', '--agent', 'copilot', '-w', workspace]

  const { status, stderr } = await runCli(run, { env, cwd: project })

  expect(status).toBe(2)
  expect(stderr).toContain(`npx agentweaver move-state ${old} `)
  expect(existsSync(stateDir)).toBe(false)
})
