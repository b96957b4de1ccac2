import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import type { RunEnvelope } from '../../contracts/events.ts'
import { alice, dataOf, follow, typesOf } from './service-rig.ts'
import { aSetupPlace, BOTH, SETUP_ONLY, setupSettings, WORK_ONLY } from './setup-rig.ts'

/** What each command has written to its standard output, in order. The agent's commands belong to a call. */
function outputsOf(events: readonly RunEnvelope[]): string[] {
  const outputs = new Map<string, string>()
  for (const { commandId, stream, chunk } of dataOf(events, 'command.output'))
    if (stream === 'stdout') outputs.set(commandId, `${outputs.get(commandId) ?? ''}${chunk}`)
  return [...outputs.values()]
}

it('runs the setup commands of the settings before the first turn, with the network of the phase setup', async () => {
  const { service, store, get, aFolder, asking } = await aSetupPlace()
  const hosts = [SETUP_ONLY, WORK_ONLY, BOTH]
  const all = hosts.map((host) => get(host)).join('; ')
  const path = aFolder('both', setupSettings(`${all}; echo one > order`, 'echo two >> order'))

  const { id } = await service.startRun(alice, asking(path, [`${all}; cat order`]))
  const events = await follow(service, id)

  expect(typesOf(events).filter((type) => /^(setup|run|turn)\./.test(type))).toEqual([
    ...['run.queued', 'setup.command', 'setup.command', 'setup.ended', 'run.started'],
    ...['turn.started', 'turn.ended', 'run.outcome'],
  ])
  expect(outputsOf(events)).toEqual(['200\n403\n200\n', '403\n200\n200\none\ntwo\n'])
  expect(dataOf(events, 'setup.command').map(({ command, number, of }) => [command, number, of])).toEqual([
    [`${all}; echo one > order`, 1, 2],
    ['echo two >> order', 2, 2],
  ])
  expect(dataOf(events, 'setup.ended')).toEqual([{ succeeded: true, durationMs: expect.any(Number) }])
  const summaries = dataOf(events, 'egress.summary').flatMap((summary) => summary.hosts)
  expect(summaries).toContainEqual(
    expect.objectContaining({ host: SETUP_ONLY, phase: 'setup', connections: 1 }),
  )
  const { items } = await store.readAudit({ runId: id, limit: 100 })
  const records = items.map(({ record }) => JSON.parse(record))
  expect(records.filter(({ actor, tool }) => actor === 'agentweaver' && tool === 'exec')).toMatchObject([
    { kind: 'intent', decision: 'allow', reasons: ['setup command 1 of 2 of the settings'] },
    { kind: 'outcome', outcome: 'exit', exitCode: 0 },
    { kind: 'intent', decision: 'allow' },
    { kind: 'outcome', outcome: 'exit', exitCode: 0 },
  ])
  expect(readFileSync(join(path, 'order'), 'utf8')).toBe('one\ntwo\n')
})

it('fails a run whose setup command fails, with the command and the end of its output', async () => {
  const { service, aFolder, asking } = await aSetupPlace()
  const path = aFolder(
    'failing',
    setupSettings('echo fine', 'echo no such package >&2; exit 7', 'touch never'),
  )

  const { id } = await service.startRun(alice, asking(path, ['touch agent']))
  const events = await follow(service, id)

  expect(typesOf(events)).not.toContain('run.started')
  expect(dataOf(events, 'setup.ended')).toMatchObject([{ succeeded: false }])
  expect(dataOf(events, 'run.failed')).toEqual([
    {
      code: 'setup_failed',
      message: expect.stringMatching(
        /^The setup command 2 of 3 \(echo no such package >&2; exit 7\) ended with exit code 7.*--no-setup.*\nno such package$/s,
      ),
    },
  ])
  expect(dataOf(events, 'setup.command')).toHaveLength(2)
})

it('begins in the phase work if a run has no setup commands, or turns them off', async () => {
  const { service, get, aFolder, asking } = await aSetupPlace()
  const path = aFolder('off', setupSettings('touch made-by-setup'))
  const policy = { network_enabled: true, setup_commands: [] }

  const { id } = await service.startRun(alice, asking(path, [`${get(SETUP_ONLY)}; ls`], { policy }))
  const events = await follow(service, id)

  expect(outputsOf(events)).toEqual(['403\n'])
  expect(typesOf(events)).not.toContain('setup.command')
})

it('refuses setup commands that the policy forbids or that need an approval', async () => {
  const { service, store, aFolder, asking } = await aSetupPlace()
  const path = aFolder('refused')
  const policy = { network_enabled: true, setup_commands: ['rm -rf build'] }

  const { id } = await service.startRun(alice, asking(path, ['true'], { policy }))
  const events = await follow(service, id)

  expect(dataOf(events, 'run.failed')).toEqual([
    { code: 'policy_denied', message: expect.stringMatching(/rm -rf build.*approval of a person.*delete/) },
  ])
  expect(typesOf(events)).not.toContain('command.exited')
  const { items } = await store.readAudit({ runId: id, limit: 100 })
  expect(items.map(({ record }) => JSON.parse(record)).filter(({ tool }) => tool === 'exec')).toMatchObject([
    { kind: 'intent', decision: 'deny', actor: 'agentweaver' },
    { kind: 'outcome', outcome: 'not released (policyDenied)' },
  ])
})

it('hides secrets in a setup command and in its output', async () => {
  const { service, aFolder, asking } = await aSetupPlace()
  const token = `ghp_${'a1B2'.repeat(9)}`
  const path = aFolder('secret')
  const policy = { setup_commands: [`echo ${token}`] }

  const { id } = await service.startRun(alice, asking(path, ['true'], { policy }))
  const events = await follow(service, id)

  expect(dataOf(events, 'setup.command')).toHaveLength(1)
  expect(JSON.stringify(events)).not.toContain(token)
})
