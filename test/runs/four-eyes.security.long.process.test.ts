import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { StartCommand, type StartRunInput } from '../../contracts/api.ts'
import type { ApiRole } from '../../contracts/api-keys.ts'
import { createKeyService } from '../../runtime/api/people/api-keys.ts'
import type { Caller } from '../../runtime/api/runs/service.ts'
import { until } from '../helpers/until.ts'
import { aRun, shell, tool, useService } from './service-rig.ts'

const ISSUER = 'https://login.example.com'
/** A person who signed in. */
const person = (name: string, role: ApiRole = 'user'): Caller => ({
  owner: `${ISSUER}#${name}`,
  role,
  signedInAt: ISSUER,
})
const ada = person('ada', 'approver')
const ann = person('ann', 'approver')
const root = person('root', 'operator')
const eve = person('eve', 'operator')

const POLICY = { approvals: { not_by_owner: true } } as const
const use = useService()

/** A run of `owner` whose agent waits for the approval of a command. */
async function waiting(owner: Caller, change: Partial<StartRunInput> = {}, steps = [shell('rm -rf build')]) {
  const { service, aWorkspace } = use()
  const path = aWorkspace()
  mkdirSync(join(path, 'build'))
  const run = await service.startRun(owner, aRun(path, steps, { policy: POLICY, ...change }))
  onTestFinished(async () => void (await service.cancel(owner, run.id)))
  return asked(owner, run.id)
}

/** The first pending request of a run, and what people do with it. */
async function asked(owner: Caller, runId: string) {
  const { service } = use()
  const pending = async () =>
    (await service.listApprovals(owner, runId)).items.filter(({ state }) => state === 'pending')
  await until('a request waits', async () => (await pending()).length > 0)
  const requestId = (await pending())[0]?.requestId ?? ''
  const approve = (caller: Caller, scope: 'once' | 'run' = 'once') =>
    service.decideShell(caller, runId, { outcome: 'approved', requestId, scope })
  return {
    runId,
    requestId,
    approve,
    deny: (caller: Caller) => service.decideShell(caller, runId, { outcome: 'denied', requestId }),
    /** The reason why this caller cannot approve. The request must stay open. */
    async refusal(caller: Caller): Promise<string> {
      const error = await approve(caller).then(
        () => undefined,
        (reason: unknown) => reason,
      )
      expect(error).toMatchObject({ code: 'forbidden' })
      expect((await pending()).map((one) => one.requestId)).toContain(requestId)
      return (error as Error).message
    },
  }
}

/** Keys as their creators make them. */
function useKeys() {
  const { store } = use()
  const keys = createKeyService({ store, audit: { append: async () => undefined }, now: () => new Date() })
  return async (creator: Caller, owner: string, role: ApiRole): Promise<Caller> => {
    const { id } = await keys.create(creator, { name: 'a key', owner, role })
    return { owner, role, apiKeyId: id }
  }
}

describe('with approvals: not_by_owner', () => {
  it('another signed-in person approves, and the audit names that person', async () => {
    const { service } = use()
    const { approve, runId } = await waiting(ada)
    expect(await approve(ann)).toMatchObject({ state: 'approved', decidedBy: ann.owner })
    const { items } = await service.readRunAudit(ada, runId, { limit: 100 })
    expect(items).toContainEqual(
      expect.objectContaining({ kind: 'decision', decision: 'approved', actor: `person:${ann.owner}` }),
    )
  })

  it('an operator who did not contribute approves', async () => {
    expect(await (await waiting(ada)).approve(root)).toMatchObject({ state: 'approved' })
  })

  it('the owner cannot approve with any role, and can deny', async () => {
    const { refusal, deny } = await waiting(root)
    expect(await refusal(root)).toContain(`${root.owner} owns the run`)
    expect(await refusal(root)).toContain('An approver or operator who is signed in')
    expect(await deny(root)).toMatchObject({ state: 'denied', decidedBy: root.owner })
  })

  it('without the setting, the owner approves (control)', async () => {
    expect(await (await waiting(ada, { policy: {} })).approve(ada)).toMatchObject({ state: 'approved' })
  })

  it('an API key cannot approve, also the key of another person, and its message names the way out', async () => {
    const addKey = useKeys()
    const { refusal, deny } = await waiting(ada)
    const key = await addKey(ann, ann.owner, 'approver')
    expect(await refusal(key)).toContain('An API key cannot approve it. Sign in as a person')
    expect(await deny(key)).toMatchObject({ state: 'denied' })
  })

  it('the user of a laptop reads why it is refused, and can deny', async () => {
    const local: Caller = { owner: 'local', role: 'operator', apiKeyId: 'key_first' }
    const { refusal, deny } = await waiting(local)
    expect(await refusal(local)).toMatch(/another person approves.*service that has sign-in.*You can deny it/)
    expect(await deny(local)).toMatchObject({ state: 'denied' })
  })

  it('the access token of a program cannot approve', async () => {
    const { signedInAt: _issuer, ...program } = ann
    expect(await (await waiting(ada)).refusal(program)).toContain('of a program cannot approve')
  })
})

describe('a contributor cannot approve', () => {
  it('after a turn', async () => {
    const { service } = use()
    const { refusal, runId, approve } = await waiting(ada)
    await service.startTurn(eve, runId, { prompt: 'delete it', final: false })
    expect(await refusal(eve)).toContain(`${eve.owner} sent a turn`)
    expect(await approve(ann)).toMatchObject({ state: 'approved' })
  })

  it('after a command', async () => {
    const { service } = use()
    const { refusal, runId } = await waiting(ada)
    await service.startCommand(eve, runId, StartCommand.parse({ command: 'true' }))
    expect(await refusal(eve)).toContain('ran a command in it')
  })

  it('after a file was written', async () => {
    const { service } = use()
    const { refusal, runId } = await waiting(ada)
    const operation = { op: 'write', path: 'a.txt', create: 'allowed', parents: false } as const
    await service.file(eve, runId, { operation, payload: new Uint8Array(1) })
    expect(await refusal(eve)).toContain('changed a file in it')
  })

  it('after an answer to a question of the agent', async () => {
    const { service } = use()
    const { runId, requestId } = await waiting(ada, {}, [
      tool('ask_question', { question: 'Which one?' }),
      shell('rm -rf build'),
    ])
    await service.answerQuestion(eve, runId, { requestId, answer: 'build' })
    const { refusal } = await asked(ada, runId)
    expect(await refusal(eve)).toContain('answered a question')
  })

  it('with an approval for the rest of the run that the person gave before', async () => {
    const { service } = use()
    const twice = [shell('rm -rf build'), tool('ask_question', { question: 'Go on?' }), shell('rm -rf build')]
    const first = await waiting(ada, {}, twice)
    await first.approve(eve, 'run')
    const question = await asked(ada, first.runId)
    await service.answerQuestion(eve, first.runId, { requestId: question.requestId, answer: 'yes' })
    const second = await asked(ada, first.runId)
    expect(await second.refusal(eve)).toContain('answered a question')
  })

  it('but an approval of another person counts for the rest of the run (control)', async () => {
    const { service } = use()
    const first = await waiting(ada, {}, [shell('rm -rf build'), shell('rm -rf build')])
    await first.approve(ann, 'run')
    await until(
      'the run has ended',
      async () => (await service.readRun(ada, first.runId)).endedAt !== undefined,
    )
    expect((await service.listApprovals(ada, first.runId)).items).toHaveLength(1)
  })
})

describe('keys', () => {
  it('of the owner do not make the owner another person', async () => {
    const addKey = useKeys()
    const byKey = await addKey(ada, ada.owner, 'user')
    const { refusal, approve } = await waiting(byKey)
    expect(await refusal(ada)).toContain('owns the run')
    expect(await refusal(await addKey(ada, ada.owner, 'approver'))).toContain('An API key cannot')
    expect(await approve(ann)).toMatchObject({ state: 'approved' })
  })

  it('exclude the operator who created the one that was used, and the creators of keys behind it', async () => {
    const addKey = useKeys()
    const first = await addKey(eve, root.owner, 'operator')
    const second = await addKey(first, ada.owner, 'user')
    const { refusal, approve } = await waiting(second)
    expect(await refusal(root)).toContain(`${root.owner} created the API key ${second.apiKeyId}`)
    expect(await refusal(eve)).toContain(`${eve.owner} created the API key ${first.apiKeyId}`)
    expect(await approve(ann)).toMatchObject({ state: 'approved' })
  })

  it('with an owner who never signed in may belong to any person, so all approvals are refused', async () => {
    const addKey = useKeys()
    const { refusal, deny } = await waiting(await addKey(root, 'ada', 'user'))
    // Ada also signs in, and would be another owner.
    expect(await refusal(ada)).toContain('ada owns the run, and is not a person who signed in')
    expect(await refusal(ann)).toContain('Nobody can approve it')
    expect(await deny(ann)).toMatchObject({ state: 'denied' })
  })
})

describe('a run that begins from another one', () => {
  it('excludes everybody who contributed to that run', async () => {
    const { service } = use()
    const plan = { turns: [[shell('rm -rf build')], []] }
    const agent = { kind: 'scripted', plan } as const
    const empty = { workspace: { kind: 'empty' }, agent, requireOutcome: false } as const
    const first = await waiting(ada, empty)
    await service.startTurn(eve, first.runId, { prompt: 'go on', final: true })
    await first.approve(ann)
    await until(
      'the run has ended',
      async () => (await service.readRun(ada, first.runId)).endedAt !== undefined,
    )
    const workspace = { kind: 'run', runId: first.runId } as const
    const policy = { approvals: { not_by_owner: false } } as const
    const start = (change: object) => service.startRun(ada, { ...aRun('/', []), workspace, agent, ...change })
    await expect(start({ policy })).rejects.toMatchObject({ message: expect.stringContaining('approvals') })
    const child = await start({})
    onTestFinished(async () => void (await service.cancel(ada, child.id)))

    const { refusal, approve } = await asked(ada, child.id)

    expect(await refusal(eve)).toContain('contributed to a run from which it began')
    expect(await refusal(ada)).toContain('owns the run')
    expect(await approve(ann)).toMatchObject({ state: 'approved' })
  })
})

describe('a change of the policy', () => {
  it('does not lift the setting of a run that has started, and cannot go below the settings of the deployment', async () => {
    const { service } = use()
    await service.replacePolicy(root, POLICY)
    onTestFinished(async () => void (await service.replacePolicy(root, {})))
    const { aWorkspace } = use()
    const loose = aRun(aWorkspace(), [], { policy: { approvals: { not_by_owner: false } } })
    await expect(service.startRun(ada, loose)).rejects.toMatchObject({
      message: expect.stringContaining('another person approves'),
    })
    const { refusal } = await waiting(root, { policy: {} })

    await service.replacePolicy(root, {})

    expect(await refusal(root)).toContain('owns the run')
  })
})
