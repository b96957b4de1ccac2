import { describe, expect, it } from 'vitest'
import { StartCommand } from '../../contracts/api.ts'
import { createAuditTrail } from '../../runtime/api/runs/audit-trail.ts'
import type { RunDeps } from '../../runtime/api/runs/deps.ts'
import { createRunCommands } from '../../runtime/api/runs/use/commands.ts'
import type { SandboxUse } from '../../runtime/api/runs/use/serving-run.ts'
import { SandboxError } from '../../runtime/kit/errors.ts'
import { noRestrictions } from '../helpers/no-restrictions.ts'
import { alice, aRun, shell, useService } from './service-rig.ts'

const use = useService()

/** Starts a command in a sandbox that accepts it and then reports `failure`, like a broken connection. */
async function startOver(failure: SandboxError) {
  const { service, store, aWorkspace } = use()
  const { id } = await service.startRun(alice, aRun(aWorkspace(), [shell('true')]))
  const run = await store.readRun(id)
  if (!run) throw new Error('the run is not stored')
  const keys = { keyId: 'k', derive: () => Buffer.alloc(32) } as unknown as RunDeps['keys']
  const deps = { store, clock: () => new Date(), restrictions: noRestrictions() } as RunDeps
  const commands = createRunCommands(deps, createAuditTrail(keys))
  const sandbox = {
    run,
    isolation: { backend: 'linux-bwrap', isRealIsolation: true, enforcesEgress: false, reason: 'a test' },
    notifyCommand: () => undefined,
    client: { startCommand: () => Promise.reject(failure) },
  } as unknown as SandboxUse
  return commands.start(alice, sandbox, StartCommand.parse({ command: 'npm test' }))
}

describe('a command whose start the sandbox did not confirm', () => {
  it('is reported as one that may run, with the way to find out', async () => {
    const started = startOver(new SandboxError('deadline_exceeded', 'the AgentHost did not respond in time'))

    await expect(started).rejects.toMatchObject({
      code: 'outcome_unknown',
      message: expect.stringMatching(/cmd_[0-9a-f]{32}; it may run\. Follow the events of run_/),
    })
  })

  it('is reported as refused if the sandbox refused it', async () => {
    const started = startOver(new SandboxError('conflict', 'another command has this id'))

    await expect(started).rejects.toMatchObject({ code: 'conflict' })
  })
})
