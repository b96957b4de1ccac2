import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { CreateSandbox } from '../../contracts/api.ts'
import type { RunEnvelope, RunEvent } from '../../contracts/events.ts'
import { SETTINGS_FILE } from '../../contracts/policy.ts'
import { alice, aRun, dataOf, follow, shell } from './service-rig.ts'
import { fileOf, ignored, noticesOf, STRICT, trusted, useTrust, WEAK, writeSettings } from './trust-rig.ts'

const { use, aRepository, startedIn, trust } = useTrust()

/** Runs one command as an agent, denies its approvals, and returns the events. */
async function runShell(path: string, command: string): Promise<RunEnvelope[]> {
  const { service } = use()
  const { id } = await service.startRun(
    alice,
    aRun(path, [shell(command)], { workspace: { kind: 'path', path, mode: 'in-place' } }),
  )
  return follow(service, id, async (event: RunEvent) => {
    if (event.type === 'shell.approval_required')
      await service.decideShell(alice, id, { outcome: 'denied', requestId: event.data.requestId })
  })
}

const FILE = SETTINGS_FILE.path

describe('an agent that weakens the settings of its workspace', () => {
  it('changes nothing for the next run', async () => {
    const path = aRepository(STRICT)

    const first = await runShell(path, `printf '${WEAK}' > ${FILE}`)
    const second = await runShell(path, 'deploy')

    expect(readFileSync(fileOf(path), 'utf8'), 'the attack worked').toBe(WEAK)
    expect(noticesOf(first)).toEqual([trusted(path, 'file')])
    expect(dataOf(second, 'shell.approval_required')).toMatchObject([{ matched: ['deploy'] }])
    expect(noticesOf(second)).toEqual([ignored(path, 'changed')])
  })

  const COMMIT = 'git -c user.name=a -c user.email=a@b.example commit -q'
  const WRITE = `printf '${WEAK}' > ${FILE}`

  it.each([
    ['commits the file', `${WRITE} && ${COMMIT} -am weaker`, 'changed'],
    ['commits the file away', `rm ${FILE} && ${COMMIT} -am weaker`, 'removed'],
    ['begins another history', `git checkout -q --orphan x && ${WRITE} && ${COMMIT} -am weaker`, 'changed'],
    [
      'replaces the file in every commit',
      `${WRITE} && git replace $(git rev-parse HEAD:${FILE}) $(git hash-object -w ${FILE})`,
      'changed',
    ],
    ['takes the repository away', `mv .git other && ${WRITE}`, 'changed'],
    ['renames the folder of the settings', 'mv .agentweaver other', 'removed'],
  ] as const)('changes nothing if it %s', async (_what, attack, reason) => {
    const path = aRepository(STRICT)
    const before = await startedIn(path)
    execFileSync('sh', ['-ec', attack], { cwd: path })

    const after = await startedIn(path)

    expect(after.settings).toEqual(before.settings)
    expect(after.settings?.destructive_command_patterns).toEqual(['deploy'])
    expect(noticesOf(after.events)).toEqual([ignored(path, reason)])
  })

  it('weakens the next run once a person has trusted the file (control)', async () => {
    const path = aRepository(STRICT)
    await runShell(path, `printf '${WEAK}' > ${FILE}`)

    await trust(path)
    const second = await runShell(path, 'deploy')

    expect(dataOf(second, 'shell.approval_required')).toEqual([])
    expect(noticesOf(second)).toEqual([])
  })

  it('changes nothing for a sandbox without an agent either', async () => {
    const { service, store } = use()
    const path = aRepository('shell_enabled: false\n')
    await startedIn(path)
    writeSettings(path, 'shell_enabled: true\n')

    const sandbox = await service.createSandbox(
      alice,
      CreateSandbox.parse({ workspace: { kind: 'path', path } }),
    )
    await service.destroySandbox(alice, sandbox.id)

    expect((await store.readRun(sandbox.id))?.settings.shell_enabled).toBe(false)
    const events = await service.readEvents(alice, sandbox.id, { after: 0, limit: 5 })
    expect(noticesOf(events)).toEqual([ignored(path, 'changed')])
  })

  it('does not get a file trusted that a person did not see', async () => {
    const { service } = use()
    const path = aRepository(STRICT)
    await startedIn(path)
    writeSettings(path, 'network_enabled: false\n')
    const seen = await service.compareSettings(alice, { path })
    writeSettings(path, WEAK)

    const trusting = service.trustFolder(alice, { path, digest: seen.file.digest })

    await expect(trusting).rejects.toMatchObject({ code: 'conflict' })
    expect((await service.compareSettings(alice, { path })).inForce?.text).toBe(STRICT)
  })
})

describe('the first run in a folder', () => {
  it('puts its file in force, and says so once', async () => {
    const path = aRepository('shell_enabled: false\n')

    const first = await startedIn(path)
    const second = await startedIn(path)

    expect(noticesOf(first.events)).toEqual([trusted(path, 'file')])
    expect(noticesOf(second.events)).toEqual([])
    expect([first, second].map(({ settings }) => settings?.shell_enabled)).toEqual([false, false])
  })

  it('applies the defaults if there is no file, and ignores a file added later', async () => {
    const path = use().aWorkspace()

    const first = await startedIn(path)
    writeSettings(path, 'shell_enabled: false\n')
    const second = await startedIn(path)
    const accepted = await trust(path)
    const third = await startedIn(path)

    expect(noticesOf(first.events)).toEqual([trusted(path, 'defaults')])
    expect(noticesOf(second.events)).toEqual([ignored(path, 'added')])
    expect([first, second, third].map(({ settings }) => settings?.shell_enabled)).toEqual([true, true, false])
    expect(accepted).toMatchObject({
      isSame: true,
      inForce: { origin: 'trust', settings: { shell_enabled: false } },
    })
    expect(noticesOf(third.events)).toEqual([])
  })

  it('keeps the trusted settings after the file is deleted, until the deletion is trusted', async () => {
    const path = aRepository('shell_enabled: false\n')
    await startedIn(path)
    rmSync(fileOf(path))

    const second = await startedIn(path)
    await trust(path)
    const third = await startedIn(path)

    expect(noticesOf(second.events)).toEqual([ignored(path, 'removed')])
    expect([second, third].map(({ settings }) => settings?.shell_enabled)).toEqual([false, true])
  })

  it('trusts nothing if the run is rejected', async () => {
    const { service, store } = use()
    const path = aRepository('shell_enabled: false\n')

    const refused = service.startRun(alice, { ...aRun(path, []), policy: { shell_enabled: true } })

    await expect(refused).rejects.toMatchObject({ code: 'policy_denied' })
    expect(await store.readTrustedFolder('alice', path)).toBeUndefined()
    expect(noticesOf((await startedIn(path)).events)).toEqual([trusted(path, 'file')])
  })

  it('trusts the settings once if several runs start at the same time', async () => {
    const path = aRepository('shell_enabled: false\n')

    const runs = await Promise.all([startedIn(path), startedIn(path), startedIn(path)])

    expect(runs.flatMap(({ events }) => noticesOf(events))).toEqual([trusted(path, 'file')])
  })

  it('is the next one after the folder was forgotten', async () => {
    const { service } = use()
    const path = aRepository('shell_enabled: false\n')
    await startedIn(path)
    writeSettings(path, WEAK)

    await service.forgetFolder(alice, { path })
    const next = await startedIn(path)

    expect(noticesOf(next.events)).toEqual([trusted(path, 'file')])
    expect(next.settings?.shell_enabled).toBe(true)
  })

  it('gives a hostile repository nothing that the deployment does not allow', async () => {
    const { service } = use()
    const path = aRepository(
      [
        'network_enabled: true',
        'redact_pii: false',
        'max_output_bytes: 104857600',
        'allowed_repository_roots: [/]',
        '',
      ].join('\n'),
    )

    const { settings } = await startedIn(path)
    const { file } = await service.compareSettings(alice, { path })

    expect(settings).toEqual({ ...(await service.readPolicy(alice)), require_outcome: false })
    expect(file.notGranted.map((words) => words.split(':')[0])).toEqual([
      'network_enabled',
      'redact_pii',
      'max_output_bytes',
      'allowed_repository_roots',
    ])
  })
})

it('works in a repository', async () => {
  const path = aRepository()

  const events = await runShell(path, 'echo made > file')

  expect(dataOf(events, 'done')).toEqual([{ state: 'succeeded' }])
  expect(existsSync(join(path, 'file'))).toBe(true)
})
