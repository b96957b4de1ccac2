import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { chmod, cp, mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { finishMove, moveState } from '../../runtime/state-folder/move-state.ts'
import { lockStateFolder } from '../../runtime/state-folder/state-lock.ts'
import { aFolder, runCli, startCli } from '../cli/run-cli.ts'
import { makeEarlierState } from './earlier-state.ts'

async function aMove() {
  const [home, project] = [await aFolder('aw-home-'), await aFolder('aw-project-')]
  const from = await makeEarlierState(project, home)
  return { home, project, from, to: join(home, '.local/state/agentweaver'), before: stateIn(from) }
}

/** The digests of the files that are state, by path. */
function stateIn(folder: string): Record<string, string> {
  const paths = existsSync(folder) ? (readdirSync(folder, { recursive: true }) as string[]) : []
  const isState = (path: string) => /^(?:store\.db|keys\/|api-key)/.test(path)
  return Object.fromEntries(
    paths
      .filter(isState)
      .sort()
      .map((path) => [
        path,
        createHash('sha256')
          .update(readFileSync(join(folder, path)))
          .digest('hex'),
      ]),
  )
}

test('moves every file of the state, for its owner alone, and leaves the settings of the project', async () => {
  const { from, to, before } = await aMove()

  const files = await moveState({ from, to })

  expect(stateIn(to)).toEqual(before)
  expect(files.toSorted()).toEqual(Object.keys(before))
  expect(readdirSync(from)).toEqual(['settings.yml'])
  expect(existsSync(`${to}.incoming`)).toBe(false)
  expect(readdirSync(to).toSorted()).toEqual(['api-key', 'keys', 'lock', 'store.db', 'store.db-wal'])
  expect([to, join(to, 'keys')].map((path) => statSync(path).mode & 0o777)).toEqual([0o700, 0o700])
  for (const path of files) expect(statSync(join(to, path)).mode & 0o077).toBe(0)
})

test('removes an old folder that contains nothing else', async () => {
  const { from, to } = await aMove()
  await rm(join(from, 'settings.yml'))

  await moveState({ from, to })

  expect(existsSync(from)).toBe(false)
})

test('work of runs that is not stored is not left behind', async () => {
  const { from, to, before } = await aMove()
  await mkdir(join(from, 'workspaces', 'run-1'), { recursive: true })

  await expect(moveState({ from, to })).rejects.toThrow(
    /workspaces contains results of runs that are not stored/,
  )

  expect(stateIn(from)).toEqual(before)
  await rm(join(from, 'workspaces', 'run-1'), { recursive: true })
  await moveState({ from, to })
  expect(readdirSync(from)).toEqual(['settings.yml'])
})

test('takes the place of a state folder that is still empty', async () => {
  const { from, to, before } = await aMove()
  await mkdir(to, { recursive: true, mode: 0o700 })
  lockStateFolder(to)()

  await moveState({ from, to })

  expect(stateIn(to)).toEqual(before)
})

test('another state is never replaced', async () => {
  const { from, to, before } = await aMove()
  const other = await makeEarlierState(dirname(to), await aFolder('aw-other-home-'))
  await rename(other, to)
  const there = stateIn(to)

  await expect(moveState({ from, to })).rejects.toThrow('two cannot be merged')

  expect([stateIn(from), stateIn(to)]).toEqual([before, there])
})

test.each<[string, (move: Awaited<ReturnType<typeof aMove>>) => Promise<unknown>, RegExp]>([
  ['others can use the old folder', ({ from }) => chmod(from, 0o755), /can be used by others/],
  [
    'the old folder is a link',
    async ({ from }) => {
      await rename(from, `${from}-real`)
      await symlink(`${from}-real`, from)
    },
    /is a link/,
  ],
  [
    'a link is among the keys',
    async ({ from }) => {
      await symlink('/etc/passwd', join(from, 'keys', 'link'))
    },
    /neither a file nor a folder/,
  ],
  [
    'others can use the place that it is copied to',
    async ({ to }) => {
      await mkdir(`${to}.incoming`, { recursive: true })
      await chmod(`${to}.incoming`, 0o777)
    },
    /can be used by others/,
  ],
  [
    'something else is in the new folder',
    async ({ to }) => {
      await mkdir(to, { recursive: true, mode: 0o700 })
      await writeFile(join(to, 'note.txt'), '')
    },
    /cannot be replaced; nothing was moved/,
  ],
])('nothing is moved when %s', async (_what, change, why) => {
  const move = await aMove()
  await change(move)

  await expect(moveState(move)).rejects.toThrow(why)

  expect(stateIn(move.from)).toMatchObject(move.before)
  expect(stateIn(move.to)).toEqual({})
  expect(stateIn(`${move.to}.incoming`)).toEqual({})
})

test.each(['from', 'to'] as const)(
  'nothing is moved while a service works with the folder "%s"',
  async (side) => {
    const move = await aMove()
    await mkdir(move.to, { recursive: true, mode: 0o700 })
    const release = lockStateFolder(move[side])
    try {
      await expect(moveState(move)).rejects.toThrow('Another service is starting or stopping')
    } finally {
      release()
    }
    expect(stateIn(move.from)).toEqual(move.before)
    expect(stateIn(move.to)).toEqual({})
  },
)

const KILL_AT = fileURLToPath(new URL('../fixtures/kill-at.ts', import.meta.url))

test.each([
  'copyFileSync 1 before',
  'copyFileSync 2 before',
  'copyFileSync 5 after',
  'writeFileSync 1 before',
  'writeFileSync 1 after',
  'renameSync 1 before',
  'renameSync 1 after',
])('a move that is killed at %s loses nothing, and the next one ends it', async (at) => {
  const { home, project, from, to, before } = await aMove()
  const env = { HOME: home, KILL_AT: at, NODE_OPTIONS: `--import=${KILL_AT}` }
  const killed = startCli(['move-state', from], { env, cwd: project })

  const [, signal] = await once(killed, 'exit')

  expect(signal).toBe('SIGKILL')
  const isCommitted = at === 'renameSync 1 after'
  expect(stateIn(from)).toEqual(before)
  expect(stateIn(to)).toEqual(isCommitted ? before : {})
  const again = await runCli(['move-state', from], { env: { HOME: home }, cwd: project })
  expect(again.status, again.stderr).toBe(0)
  expect([stateIn(from), stateIn(to), stateIn(`${to}.incoming`)]).toEqual([{}, before, {}])
})

/** As it is after a kill between the step that gives the copy its name and the end. */
async function anInterruptedMove() {
  const move = await aMove()
  const kept = join(move.home, 'kept')
  await cp(move.from, kept, { recursive: true, preserveTimestamps: true })
  await moveState(move)
  await cp(kept, move.from, { recursive: true, force: true })
  const record = { from: move.from, files: move.before }
  await writeFile(join(move.to, 'moved.json'), JSON.stringify(record), { mode: 0o600 })
  return move
}

test('a move that was killed before it emptied the old folder is finished by the next start', async () => {
  const { from, to, before } = await anInterruptedMove()
  // One key is deleted already.
  await rm(join(from, 'keys', 'ticket-key'))

  expect(await finishMove(to)).toBe(from)

  expect(stateIn(from)).toEqual({})
  expect(stateIn(to)).toEqual(before)
  expect(readdirSync(to)).not.toContain('moved.json')
  expect(await finishMove(to)).toBeUndefined()
})

test('and by the next move of the same folder', async () => {
  const { from, to, before } = await anInterruptedMove()

  await moveState({ from, to })

  expect([stateIn(from), stateIn(to)]).toEqual([{}, before])
})

test('what has changed in the old folder since it was copied is never deleted', async () => {
  const { from, to } = await anInterruptedMove()
  await writeFile(join(from, 'store.db'), 'used again since')

  await finishMove(to)

  expect(Object.keys(stateIn(from))).toEqual(['store.db'])
  expect(readFileSync(join(from, 'store.db'), 'utf8')).toBe('used again since')
})

test('the command moves the folder that it is given, also one that no service of this user made', async () => {
  const { home, project, from } = await aMove()
  const elsewhere = join(project, 'restored')
  await rename(from, elsewhere)
  const before = stateIn(elsewhere)
  const target = join(home, 'second')
  const env = { HOME: home, AGENTWEAVER_STATE_DIR: target }

  const { status, stdout } = await runCli(['move-state', basename(elsewhere)], { env, cwd: project })

  expect({ status, stdout }).toEqual({ status: 0, stdout: `Moved 5 files from ${elsewhere} to ${target}.\n` })
  expect(stateIn(target)).toEqual(before)
})
