import { randomBytes } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { type Run, StartCommand } from '../../contracts/api.ts'
import type { RestrictionLevel, RestrictionScope } from '../../contracts/restrictions.ts'
import { composeKeys, composeRunService } from '../../runtime/api/compose.ts'
import { SandboxError } from '../../runtime/kit/errors.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { OwnerRedactors } from '../../runtime/redaction/owner-redactors.ts'
import { processesWith } from '../helpers/processes-with.ts'
import { until } from '../helpers/until.ts'
import { alice, aRun, bob, dataOf, follow, operator, shell, startService, tool } from './service-rig.ts'

async function aService(env: Record<string, string> = {}) {
  const started = await startService({ AGENTWEAVER_LOCAL_WARM: '0', ...env })
  onTestFinished(() => started.close())
  const { service } = started
  const restrict = (level: RestrictionLevel, scope: RestrictionScope, caller = operator) =>
    service.setRestriction(caller, { scope, level, reason: `because ${level}` })
  const stateOf = async (id: string) => (await service.readRun(alice, id)).state
  return { ...started, restrict, stateOf }
}

const runOf = ({ id }: Pick<Run, 'id'>) => ({ kind: 'run', id }) as const
const ALL = { kind: 'all' } as const
/** Appends a line every 20 ms to `ticks`, until `stop` exists. */
const TICKING = 'while [ ! -e stop ]; do echo tick >> ticks; sleep 0.02; done; echo stopped'
const textOf = (pid: number, file: string) => {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8')
  } catch {
    return ''
  }
}
const isStopped = (pid: number) => textOf(pid, 'stat').split(') ').at(-1)?.[0] === 'T'
/** Without the launcher, which waits outside of the sandbox. */
const commandsWith = (word: string) =>
  processesWith(word).filter((pid) => !textOf(pid, 'cmdline').split('\0')[0]?.endsWith('bwrap'))
const sizeOf = (file: string) => (existsSync(file) ? readFileSync(file).length : 0)

describe('a run that is restricted to read-only', () => {
  it('cannot change files with its tools, and gets the reason', async () => {
    const { service, restrict, aWorkspace } = await aService()
    const path = aWorkspace()
    writeFileSync(join(path, 'a.txt'), 'before')
    await restrict('read-only', { kind: 'owner', owner: 'alice' })

    const plan = [
      tool('create', { path: 'b.txt', file_text: 'b' }),
      tool('edit', { path: 'a.txt', old_str: 'before', new_str: 'after' }),
      tool('read_file', { path: 'a.txt' }),
    ]
    const { id } = await service.startRun(alice, aRun(path, plan))
    const events = await follow(service, id)

    expect(readFileSync(join(path, 'a.txt'), 'utf8')).toBe('before')
    expect(existsSync(join(path, 'b.txt'))).toBe(false)
    expect(dataOf(events, 'tool.denied').map(({ tool: name, reason }) => [name, reason])).toEqual([
      ['create', expect.stringContaining('restricted to read-only by root: because read-only')],
      ['edit', expect.stringContaining('agentweaver restrict normal')],
    ])
    expect(dataOf(events, 'tool.result')).toHaveLength(1)
    expect(dataOf(events, 'run.restricted')).toEqual([
      { scope: 'owner', level: 'read-only', by: 'root', reason: 'because read-only' },
    ])
  })

  it('accepts no write through the file API', async () => {
    const { service, restrict, aWorkspace } = await aService()
    const sandbox = await service.createSandbox(alice, { workspace: { kind: 'path', path: aWorkspace() } })
    await restrict('read-only', runOf(sandbox))

    const write = service.file(alice, sandbox.id, {
      operation: { op: 'write', path: 'a.txt', create: 'allowed', parents: false },
      payload: Buffer.from('a'),
    })

    await expect(write).rejects.toMatchObject({ code: 'restricted' })
  })
})

describe('a frozen run', () => {
  it('stops the commands that run, and continues them when the restriction is lifted', async () => {
    const { service, restrict, aWorkspace } = await aService()
    const path = aWorkspace()
    const word = `odd${randomBytes(8).toString('hex')}`
    // The time limit of the command passes while it is stopped.
    const { id } = await service.startRun(
      alice,
      aRun(path, [shell(`: ${word}; ${TICKING}`, { timeout_ms: 20_000 })]),
    )
    const ticks = join(path, 'ticks')
    await until('the command works', () => sizeOf(ticks) > 0)

    await restrict('frozen', runOf({ id }))
    await until(
      'the command is stopped',
      () => commandsWith(word).length > 0 && commandsWith(word).every(isStopped),
    )
    const view = await service.readRun(alice, id)
    writeFileSync(join(path, 'stop'), '')
    await restrict('normal', runOf({ id }))
    const events = await follow(service, id)

    expect(view).toMatchObject({ state: 'running', restrictions: [{ level: 'frozen', by: 'root' }] })
    expect(dataOf(events, 'tool.result')).toMatchObject([{ outcome: { ok: true } }])
    expect(dataOf(events, 'run.restricted').map(({ level }) => level)).toEqual(['frozen', 'normal'])
  })

  it('holds a call that a person approves, and releases it when the restriction is lifted', async () => {
    const { service, restrict, aWorkspace, stateOf } = await aService()
    const path = aWorkspace()
    const { id } = await service.startRun(alice, aRun(path, [shell('mkdir d && rm -rf d && echo ran > ran')]))
    let requestId = ''
    const following = follow(service, id, (event) => {
      if (event.type === 'shell.approval_required') requestId = event.data.requestId
    })
    await until('the call waits', async () => requestId !== '' && (await stateOf(id)) === 'waiting')

    await restrict('frozen', ALL)
    await service.decideShell(alice, id, { outcome: 'approved', requestId, scope: 'once' })
    const heldState = await stateOf(id)
    const ranWhileFrozen = existsSync(join(path, 'ran'))
    await restrict('normal', ALL)
    await following

    expect(heldState).toBe('running')
    expect(ranWhileFrozen).toBe(false)
    expect(readFileSync(join(path, 'ran'), 'utf8')).toBe('ran\n')
  })

  it('starts no sandbox, no command and no turn', async () => {
    const { service, restrict, stateOf, aWorkspace } = await aService()
    const sandbox = await service.createSandbox(alice, { workspace: { kind: 'path', path: aWorkspace() } })
    await restrict('frozen', { kind: 'owner', owner: 'alice' })

    const queued = await service.startRun(alice, aRun(aWorkspace('second'), [shell('echo ran > ran')]))
    const request = StartCommand.parse({ command: 'echo ran', timeoutMs: 1000 })
    const command = service.startCommand(alice, sandbox.id, request)

    await expect(command).rejects.toMatchObject({ code: 'restricted' })
    const free = await service.startRun(bob, aRun(aWorkspace('third'), [shell('true')]))
    await until('another owner runs', async () => (await service.readRun(bob, free.id)).state === 'succeeded')
    expect(await stateOf(queued.id)).toBe('queued')

    await restrict('normal', { kind: 'owner', owner: 'alice' })
    await follow(service, queued.id)
    expect(await stateOf(queued.id)).toBe('succeeded')
  })
})

describe('a restriction', () => {
  it('is recorded with who and why', async () => {
    const { service, store, restrict } = await aService()

    await restrict('no-network', ALL)
    const { items } = await store.readAudit({ runId: '', limit: 100 })

    expect(items.map(({ record }) => JSON.parse(record))).toContainEqual(
      expect.objectContaining({
        kind: 'restriction.changed',
        actor: 'person:root',
        decision: 'no-network',
        reasons: ['applies to all runs', 'because no-network'],
      }),
    )
    expect((await service.listRestrictions(alice)).items).toMatchObject([{ level: 'no-network', by: 'root' }])
  })

  it('of an operator cannot be changed by a user, and of one user not seen by another', async () => {
    const { service, restrict } = await aService()
    const own = { kind: 'owner', owner: 'alice' } as const

    await restrict('no-network', own, alice)
    await restrict('frozen', own)

    await expect(restrict('normal', own, alice)).rejects.toMatchObject({ code: 'forbidden' })
    await expect(restrict('normal', own, bob)).rejects.toMatchObject({ code: 'forbidden' })
    await expect(restrict('normal', ALL, alice)).rejects.toBeInstanceOf(SandboxError)
    expect((await service.listRestrictions(bob)).items).toEqual([])
    expect((await service.listRestrictions(alice)).items).toMatchObject([{ level: 'frozen' }])
  })
})

it('applies after a restart of the service', async () => {
  const first = await aService()
  await first.restrict('no-network', ALL)
  await first.service.close()

  const { keys } = await composeKeys(first.config)
  const around = { store: first.store, redactors: new OwnerRedactors([]), log: silentLog }
  const { service: second } = await composeRunService(first.config, around, keys)
  onTestFinished(() => second.close())
  await second.hold()
  await second.start()
  const { id } = await second.createSandbox(alice, { workspace: { kind: 'empty' } })

  expect(await second.readRun(alice, id)).toMatchObject({ restrictions: [{ level: 'no-network' }] })
})
