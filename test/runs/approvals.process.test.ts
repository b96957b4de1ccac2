import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import type { RunEvent } from '../../contracts/events.ts'
import {
  alice,
  aRun,
  bob,
  dataOf,
  follow,
  shell,
  startService,
  tool,
  typesOf,
  useService,
} from './service-rig.ts'

const use = useService()

/** A command that needs an approval. The deleted folder shows whether the command ran. */
const DESTRUCTIVE = 'rm -rf build'

function aProject(aWorkspace: () => string) {
  const path = aWorkspace()
  mkdirSync(join(path, 'build'))
  return { path, wasRun: () => !existsSync(join(path, 'build')) }
}

const requestOf = (event: RunEvent) => (event.type === 'shell.approval_required' ? event.data : undefined)

it('runs a destructive command only after a person has approved it', async () => {
  const { service, aWorkspace } = use()
  const { path, wasRun } = aProject(aWorkspace)
  const run = await service.startRun(alice, aRun(path, [shell(DESTRUCTIVE)]))

  let ranBefore: boolean | undefined
  const events = await follow(service, run.id, async (event) => {
    const request = requestOf(event)
    if (!request) return
    ranBefore = wasRun()
    expect(request).toMatchObject({ command: DESTRUCTIVE, workingDirectory: '.', redacted: false })
    expect(request.matched.length).toBeGreaterThan(0)
    await service.decideShell(alice, run.id, {
      outcome: 'approved',
      commandHash: request.commandHash,
      scope: 'once',
    })
  })

  expect(ranBefore).toBe(false)
  expect(wasRun()).toBe(true)
  expect(typesOf(events)).toEqual(
    expect.arrayContaining(['shell.approval_required', 'shell.approved', 'tool.result']),
  )
})

it('does not run a denied command, and reports the denial and its reason to the agent', async () => {
  const { service, aWorkspace } = use()
  const { path, wasRun } = aProject(aWorkspace)
  const run = await service.startRun(alice, aRun(path, [shell(DESTRUCTIVE)]))

  const events = await follow(service, run.id, async (event) => {
    const request = requestOf(event)
    if (request)
      await service.decideShell(alice, run.id, {
        outcome: 'denied',
        requestId: request.requestId,
        reason: 'keep it',
      })
  })

  expect(wasRun()).toBe(false)
  expect(dataOf(events, 'shell.denied')[0]).toMatchObject({ by: 'alice', reason: 'keep it' })
  expect(dataOf(events, 'tool.error')[0]).toMatchObject({
    code: 'denied',
    message: 'A person denied this call: keep it',
  })
})

it('reports an approval request without a decision as expired, not as denied', async () => {
  const { service, aWorkspace, close } = await startService({ AGENTWEAVER_APPROVAL_TTL_SECONDS: '1' })
  onTestFinished(close)
  const { path, wasRun } = aProject(aWorkspace)
  const run = await service.startRun(
    alice,
    aRun(path, [shell(DESTRUCTIVE), { kind: 'say', text: 'going on' }]),
  )

  const events = await follow(service, run.id)

  expect(wasRun()).toBe(false)
  expect(typesOf(events)).toContain('shell.expired')
  expect(dataOf(events, 'tool.error')[0]).toMatchObject({ code: 'expired' })
  expect(dataOf(events, 'tool.error')[0]?.message).toContain('not a denial')
  expect(dataOf(events, 'agent.message')[0]?.text).toBe('going on')
})

it('supersedes a pending approval request when the run is cancelled', async () => {
  const { service, aWorkspace } = use()
  const { path, wasRun } = aProject(aWorkspace)
  const run = await service.startRun(alice, aRun(path, [shell(DESTRUCTIVE)]))

  let requestId = ''
  const events = await follow(service, run.id, async (event) => {
    const request = requestOf(event)
    if (!request) return
    requestId = request.requestId
    await service.cancel(alice, run.id)
  })

  expect(wasRun()).toBe(false)
  expect(typesOf(events)).toContain('shell.superseded')
  const late = service.decideShell(alice, run.id, { outcome: 'approved', requestId, scope: 'once' })
  await expect(late).rejects.toMatchObject({ code: 'already_decided' })
})

it('denies by policy without an approval request', async () => {
  const { service, aWorkspace } = use()
  const { path, wasRun } = aProject(aWorkspace)

  const run = await service.startRun(alice, {
    ...aRun(path, [shell(DESTRUCTIVE)]),
    policy: { shell_enabled: false },
  })
  const events = await follow(service, run.id)

  expect(wasRun()).toBe(false)
  expect(typesOf(events)).not.toContain('shell.approval_required')
  expect(dataOf(events, 'tool.denied')[0]).toMatchObject({ by: 'policy' })
  expect(dataOf(events, 'tool.error')[0]).toMatchObject({ code: 'policyDenied' })
})

it('is single use by default and asks again for the same command', async () => {
  const { service, aWorkspace } = use()
  const { path } = aProject(aWorkspace)
  const run = await service.startRun(alice, aRun(path, [shell(DESTRUCTIVE), shell(DESTRUCTIVE)]))

  const events = await follow(service, run.id, async (event) => {
    const request = requestOf(event)
    if (request)
      await service.decideShell(alice, run.id, {
        outcome: 'approved',
        requestId: request.requestId,
        scope: 'once',
      })
  })

  expect(dataOf(events, 'shell.approval_required')).toHaveLength(2)
})

it('applies an approval with scope run to this run and to the identical request only', async () => {
  const { service, aWorkspace } = use()
  const { path } = aProject(aWorkspace)
  const steps = [
    shell(DESTRUCTIVE),
    shell(DESTRUCTIVE),
    shell(`${DESTRUCTIVE} `),
    shell(DESTRUCTIVE, { directory: 'build' }),
  ]
  const run = await service.startRun(alice, aRun(path, steps))

  const events = await follow(service, run.id, async (event) => {
    const request = requestOf(event)
    if (request)
      await service.decideShell(alice, run.id, {
        outcome: 'approved',
        requestId: request.requestId,
        scope: 'run',
      })
  })

  expect(dataOf(events, 'shell.approval_required')).toHaveLength(3)
})

it('makes exactly one decision when two people decide at once', async () => {
  const { service, aWorkspace } = use()
  const { path } = aProject(aWorkspace)
  const run = await service.startRun(alice, aRun(path, [shell(DESTRUCTIVE)]))

  let results: PromiseSettledResult<unknown>[] = []
  const events = await follow(service, run.id, async (event) => {
    const request = requestOf(event)
    if (!request) return
    const { requestId } = request
    results = await Promise.allSettled([
      service.decideShell(alice, run.id, { outcome: 'approved', requestId, scope: 'once' }),
      service.decideShell(alice, run.id, { outcome: 'denied', requestId }),
    ])
  })

  expect(results.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
  const decided = typesOf(events).filter((type) => type === 'shell.approved' || type === 'shell.denied')
  expect(decided).toHaveLength(1)
})

it('opens nothing in another run, and nothing for another owner', async () => {
  const { service, aWorkspace } = use()
  const first = aProject(aWorkspace)
  const second = aProject(aWorkspace)
  const one = await service.startRun(alice, aRun(first.path, [shell(DESTRUCTIVE)]))
  const two = await service.startRun(alice, aRun(second.path, [shell(DESTRUCTIVE)]))

  await follow(service, one.id, async (event) => {
    const request = requestOf(event)
    if (!request) return
    const approve = { outcome: 'approved', requestId: request.requestId, scope: 'once' } as const
    await expect(service.decideShell(alice, two.id, approve)).rejects.toMatchObject({ code: 'not_found' })
    await expect(service.decideShell(bob, one.id, approve)).rejects.toMatchObject({ code: 'not_found' })
    await service.decideShell(alice, one.id, approve)
  })
  await service.cancel(alice, two.id)

  expect([first.wasRun(), second.wasRun()]).toEqual([true, false])
})

it('shows the hidden characters of the requested command', async () => {
  const { service, aWorkspace } = use()
  const { path } = aProject(aWorkspace)
  const run = await service.startRun(alice, aRun(path, [shell('rm -rf build \u202e# dliub fr- mr\u200b')]))

  const events = await follow(service, run.id, async (event) => {
    const request = requestOf(event)
    if (request) await service.decideShell(alice, run.id, { outcome: 'denied', requestId: request.requestId })
  })

  const [asked] = dataOf(events, 'shell.approval_required')
  expect(asked?.command).toBe('rm -rf build \\u{202e}# dliub fr- mr\\u{200b}')
})

it('reports hidden text if redaction changed the request, and then approves once only', async () => {
  const { service, aWorkspace } = use()
  const { path, wasRun } = aProject(aWorkspace)
  const token = `ghp_${'a1B2'.repeat(9)}`
  const run = await service.startRun(alice, aRun(path, [shell(`${DESTRUCTIVE} # ${token}`)]))

  const events = await follow(service, run.id, async (event) => {
    const request = requestOf(event)
    if (!request) return
    const { requestId } = request
    const forRun = service.decideShell(alice, run.id, { outcome: 'approved', requestId, scope: 'run' })
    await expect(forRun).rejects.toMatchObject({ code: 'conflict' })
    await service.decideShell(alice, run.id, { outcome: 'approved', requestId, scope: 'once' })
  })

  expect(dataOf(events, 'shell.approval_required')[0]).toMatchObject({ redacted: true })
  expect(JSON.stringify(events)).not.toContain(token)
  expect(wasRun()).toBe(true)
})

it('brings the answer of a person to the agent that asked', async () => {
  const { service, store, aWorkspace } = use()
  const steps = [tool('ask_question', { question: 'Which one?', choices: ['a', 'b'] })]
  const run = await service.startRun(alice, aRun(aWorkspace(), steps))

  const events = await follow(service, run.id, async (event) => {
    if (event.type !== 'agent.question_asked') return
    const { requestId } = event.data
    const shellWord = service.decideShell(alice, run.id, { outcome: 'approved', requestId, scope: 'once' })
    await expect(shellWord).rejects.toMatchObject({ code: 'conflict' })
    await service.answerQuestion(alice, run.id, { requestId, answer: 'b' })
  })

  expect(dataOf(events, 'tool.result')[0]?.outcome).toMatchObject({ ok: true, content: 'b' })
  expect(typesOf(events)).toContain('agent.question_answered')
  expect((await store.listApprovals(run.id))[0]).toMatchObject({ state: 'answered', answer: 'b' })
})
