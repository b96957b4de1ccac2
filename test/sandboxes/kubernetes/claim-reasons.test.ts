import { expect, it } from 'vitest'
import { CLAIM_REASONS } from '../../../runtime/sandboxes/kubernetes/claims/claim-reasons.ts'
import { until } from '../../helpers/until.ts'
import { type ClaimRig, startClaimRig } from './claim-rig.ts'

const reasons = (isFinal: boolean) =>
  Object.entries(CLAIM_REASONS)
    .filter(([, meaning]) => meaning.isFinal === isFinal)
    .map(([reason, { code }]) => [reason, code] as const)

/** Its provider has begun to watch, so that a test's time is the claim's alone. */
async function startWatchingRig(): Promise<ClaimRig> {
  const rig = await startClaimRig()
  await rig.provider.start()
  return rig
}

async function claimThatHears(rig: ClaimRig, reason: string, message = '') {
  rig.controller.stop()
  const claimed = rig.claim({ claimName: 'agent-1', signal: AbortSignal.timeout(700) })
  claimed.catch(() => undefined)
  await until('the claim is there', () => rig.controller.claims().length === 1)
  rig.controller.refuse('agent-1', reason, message)
  return claimed
}

const settledWithin = (ms: number, work: Promise<unknown>) =>
  Promise.race([
    work.then(
      () => 'bound',
      (error: { code: string }) => error.code,
    ),
    new Promise((resolve) => setTimeout(resolve, ms, 'waits')),
  ])

it.each(reasons(true))('%s ends the wait at once as %s', async (reason, code) => {
  const rig = await startWatchingRig()

  const claimed = claimThatHears(rig, reason)

  expect(await settledWithin(400, claimed)).toBe(code)
})

it.each(reasons(false))('%s is waited for, and at the deadline it is %s', async (reason, code) => {
  const rig = await startWatchingRig()

  const claimed = claimThatHears(rig, reason)

  expect(await settledWithin(300, claimed)).toBe('waits')
  await expect(claimed).rejects.toMatchObject({ code, message: expect.stringContaining(reason) })
})

it.each(reasons(false))('%s does no harm when the sandbox comes after it', async (reason) => {
  const rig = await startWatchingRig()
  const claimed = claimThatHears(rig, reason)
  await until('the reason is there', () => rig.controller.claims()[0]?.['status'] !== undefined)

  rig.controller.bind('agent-1')

  await expect(claimed).resolves.toMatchObject({ claimName: 'agent-1' })
})

it.each([
  ['pods "x" is forbidden: exceeded quota: none, requested: pods=1', 'agent_quota_exceeded', 'at once'],
  ['Error seen: metadata override conflict', 'agent_pod_reconciler_error', 'at its deadline'],
] as const)('ReconcilerError, %s, is %s, %s', async (message, code, when) => {
  const rig = await startWatchingRig()

  const claimed = claimThatHears(rig, 'ReconcilerError', message)

  expect(await settledWithin(400, claimed)).toBe(when === 'at once' ? code : 'waits')
  await expect(claimed).rejects.toMatchObject({ code, message: expect.stringContaining(message) })
})

it('a reason that nobody knows is never taken for success', async () => {
  const rig = await startWatchingRig()

  const claimed = claimThatHears(rig, 'constructor')

  expect(await settledWithin(300, claimed)).toBe('waits')
  await expect(claimed).rejects.toMatchObject({ code: 'agent_pod_reconciler_error' })
})

it('a claim that a quota of claims refuses is agent_quota_exceeded', async () => {
  const rig = await startWatchingRig()
  rig.fake.faults.plan({ verb: 'create' }, { kind: 'status', status: 403, message: 'exceeded quota: claims' })

  await expect(rig.claim()).rejects.toMatchObject({ code: 'agent_quota_exceeded' })
})
