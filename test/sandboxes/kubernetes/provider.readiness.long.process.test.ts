import { expect, it } from 'vitest'
import { until } from '../../helpers/until.ts'
import { startClaimRig } from './claim-rig.ts'
import { QUICK_WATCH } from './kube-rig.ts'

/** A resumed watch gets the same time again before the provider reports it as stuck. */
const SILENCE_MS = 2_000
const timing = { watch: { ...QUICK_WATCH, silenceMs: SILENCE_MS } }
const LONG: { kind: 'status'; status: number } = { kind: 'status', status: 500 }

const sound = (checks: readonly { ok: boolean }[]) => checks.map(({ ok }) => ok)

it('is not ready before its watches have read the existing objects', async () => {
  const { provider } = await startClaimRig()

  expect(provider.checks()).toEqual([{ name: 'cluster', ok: false, detail: 'not connected yet' }])
  await provider.start()

  const detail = expect.stringMatching(/^last data \d+ s ago$/)
  expect(provider.checks()).toEqual([
    { name: 'watch of claims', ok: true, detail },
    { name: 'watch of sandboxes', ok: true, detail },
  ])
})

it('stays ready while a watch falls silent and is resumed, again and again', async () => {
  const { provider, fake } = await startClaimRig({ timing })
  await provider.start()
  await until('both watches are open', () => fake.watches.count === 2)
  const seen: boolean[] = []
  const look = setInterval(() => seen.push(...sound(provider.checks())), 5)

  for (let round = 0; round < 3 || seen.length <= 100; round += 1) {
    fake.watches.freeze()
    await until('both are resumed', () => fake.watches.count === 2)
  }
  clearInterval(look)

  expect(seen).not.toContain(false)
})

it('is not ready while one watch cannot be resumed, and is again as soon as it is', async () => {
  const { provider, fake } = await startClaimRig({ timing })
  await provider.start()
  await until('both watches are open', () => fake.watches.count === 2)

  fake.faults.plan({ verb: 'watch', plural: 'sandboxclaims' }, LONG, Number.MAX_SAFE_INTEGER)
  fake.watches.freeze()
  await until('the watch of claims is stuck', () => provider.checks()[0]?.ok === false)
  expect(provider.checks()).toEqual([
    expect.objectContaining({ name: 'watch of claims', ok: false }),
    expect.objectContaining({ name: 'watch of sandboxes', ok: true }),
  ])
  fake.faults.clear()

  await until('it is back', () => sound(provider.checks()).every(Boolean))
})
