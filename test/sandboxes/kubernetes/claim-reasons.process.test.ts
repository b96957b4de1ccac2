import { expect, it } from 'vitest'
import { CLAIM_REASONS } from '../../../runtime/sandboxes/kubernetes/claims/claim-reasons.ts'
import { until } from '../../helpers/until.ts'
import { type ClaimRig, startClaimRig } from './claim-rig.ts'

const reasons = (isFinal: boolean) =>
  Object.entries(CLAIM_REASONS)
    .filter(([, meaning]) => meaning.isFinal === isFinal)
    .map(([reason, { code }]) => [reason, code] as const)

/** Starts the watches first, so that a test measures only the claim. */
async function startWatchingRig(): Promise<ClaimRig> {
  const rig = await startClaimRig()
  await rig.provider.start()
  return rig
}

/** Starts a claim that receives `reason` from the controller. The test ends the claim's deadline with `expire`. */
async function claimThatHears(rig: ClaimRig, reason: string, message = '') {
  rig.controller.stop()
  const deadline = new AbortController()
  const claimed = rig.claim({ claimName: 'agent-1', signal: deadline.signal })
  let isSettled = false
  const settle = () => {
    isSettled = true
  }
  claimed.then(settle, settle)
  await until('the claim is there', () => rig.controller.claims().length === 1)
  rig.controller.refuse('agent-1', reason, message)
  return {
    claimed,
    expire: () => deadline.abort(new DOMException('the time is over', 'TimeoutError')),
    /**
     * Returns whether the claim still waits after it received the reason. The watch delivers the second claim's binding
     * after the reason, so the binding proves that the reason was received.
     */
    async waits() {
      const second = rig.claim({ claimName: 'agent-2' })
      await until('the second claim is there', () => rig.controller.claims().length === 2)
      rig.controller.bind('agent-2')
      await second
      return !isSettled
    },
  }
}

it.each(reasons(true))('%s ends the wait at once as %s', async (reason, code) => {
  const rig = await startWatchingRig()

  const { claimed } = await claimThatHears(rig, reason)

  await expect(claimed).rejects.toMatchObject({ code })
})

it.each(reasons(false))('%s is waited for, and at the deadline it is %s', async (reason, code) => {
  const rig = await startWatchingRig()

  const { claimed, waits, expire } = await claimThatHears(rig, reason)

  expect(await waits()).toBe(true)
  expire()
  await expect(claimed).rejects.toMatchObject({ code, message: expect.stringContaining(reason) })
})

it.each(reasons(false))('%s does no harm when the sandbox comes after it', async (reason) => {
  const rig = await startWatchingRig()
  const { claimed } = await claimThatHears(rig, reason)

  rig.controller.bind('agent-1')

  await expect(claimed).resolves.toMatchObject({ claimName: 'agent-1' })
})

it.each([
  ['pods "x" is forbidden: exceeded quota: none, requested: pods=1', 'agent_quota_exceeded', 'at once'],
  ['Error seen: metadata override conflict', 'agent_pod_reconciler_error', 'at its deadline'],
] as const)('ReconcilerError, %s, is %s, %s', async (message, code, when) => {
  const rig = await startWatchingRig()

  const { claimed, waits, expire } = await claimThatHears(rig, 'ReconcilerError', message)

  if (when === 'at its deadline') {
    expect(await waits()).toBe(true)
    expire()
  }
  await expect(claimed).rejects.toMatchObject({ code, message: expect.stringContaining(message) })
})

it('never treats an unknown reason as success', async () => {
  const rig = await startWatchingRig()

  const { claimed, waits, expire } = await claimThatHears(rig, 'constructor')

  expect(await waits()).toBe(true)
  expire()
  await expect(claimed).rejects.toMatchObject({ code: 'agent_pod_reconciler_error' })
})

it('a claim that a quota of claims refuses is agent_quota_exceeded', async () => {
  const rig = await startWatchingRig()
  rig.fake.faults.plan({ verb: 'create' }, { kind: 'status', status: 403, message: 'exceeded quota: claims' })

  await expect(rig.claim()).rejects.toMatchObject({ code: 'agent_quota_exceeded' })
})
