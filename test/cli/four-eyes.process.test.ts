import { expect, test } from 'vitest'
import type { StartRunInput } from '../../contracts/api.ts'
import { createClient } from '../../runtime/client/client.ts'
import { until } from '../helpers/until.ts'
import { aPerson, useTeam } from './sign-in-rig.ts'

const use = useTeam()

const STEP = { kind: 'tool', tool: 'run_command', arguments: { command: 'rm -rf build' } } as const
const RUN: StartRunInput = {
  task: 'clean up',
  workspace: { kind: 'empty' },
  agent: { kind: 'scripted', plan: { turns: [[STEP]] } },
  policy: { approvals: { not_by_owner: true } },
  requireOutcome: false,
}

test('a run whose settings require another person is approved by one, and not with a key', async () => {
  const { server, service } = use()
  const [ada, ann] = [await aPerson('ada', service.url), await aPerson('ann', service.url)]
  await ada.signIn()
  await ann.signIn()
  const as = (apiKey: string) => createClient({ url: service.url, apiKey })
  const byAda = as((await ada.saved()).accessToken)
  const { id } = await byAda.startRun(RUN)
  const pending = async () => (await byAda.listApprovals(id)).items.filter(({ state }) => state === 'pending')
  await until('a request waits', async () => (await pending()).length > 0)
  const requestId = (await pending())[0]?.requestId ?? ''
  const { key } = await as((await ann.saved()).accessToken).createApiKey({ name: 'ann', role: 'approver' })

  const owner = await ada.cli('approve', id, requestId)
  const approveAs = (token: string) => as(token).approveShell(id, { requestId })
  await expect(approveAs(await server.token('ann'))).rejects.toMatchObject({
    message: expect.stringContaining('token of a program'),
  })
  await expect(approveAs(key)).rejects.toMatchObject({
    message: expect.stringContaining('An API key cannot'),
  })
  expect([owner.status, owner.stderr]).toEqual([6, expect.stringContaining('another person approves')])
  expect((await pending()).length).toBe(1)

  expect((await ann.cli('approve', id, requestId)).status).toBe(0)
  await until('the run has ended', async () => (await byAda.readRun(id)).endedAt !== undefined)
  expect((await byAda.listApprovals(id)).items[0]?.decidedBy).toBe(`${server.issuer}#t1/ann`)
})
