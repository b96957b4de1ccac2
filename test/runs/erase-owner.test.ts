import { expect, test } from 'vitest'
import type { ErasedData } from '../../contracts/owner-data.ts'
import type { RunDeps } from '../../runtime/api/runs/deps.ts'
import { eraseOwner } from '../../runtime/api/runs/owners/erase-owner.ts'
import { createLog } from '../../runtime/kit/log.ts'

const PURGED = new Date('2027-02-25T10:00:00.000Z')

const noRuns = () => Promise.reject(new Error('the owner has no runs'))

/** Erases an owner without runs. */
async function erase(eraseSecrets: RunDeps['eraseSecrets'], wanted = 'ada') {
  const steps: string[] = []
  const lines: string[] = []
  const deps = {
    store: {
      listRuns: async () => ({ items: [] }),
      eraseOwner: async () => steps.push('rows'),
      deleteEvents: noRuns,
      transaction: noRuns,
    },
    clock: () => new Date(),
    log: createLog({ level: 'info', write: (line) => void lines.push(line) }),
    ...(eraseSecrets && {
      eraseSecrets: async (owner: string) => {
        steps.push(`secrets of ${owner}`)
        return eraseSecrets(owner)
      },
    }),
  }
  const caller = { owner: 'root', role: 'operator' } as const
  const reports: ErasedData[] = []
  const erasure = await eraseOwner(deps, { recordErasure: noRuns }, { caller, owner: wanted })
  for await (const report of erasure) reports.push(report)
  return { last: reports.at(-1), steps, log: lines.join('') }
}

test('an erasure deletes the secrets before the rows that name them, and reports when they are purged', async () => {
  const { last, steps, log } = await erase(async () => ({ at: PURGED, isExact: true }))

  expect(last).toMatchObject({ isComplete: true, secretsPurgedAt: PURGED.toISOString() })
  expect(steps.slice(0, 2)).toEqual(['secrets of ada', 'rows'])
  // Also if the erasure breaks off.
  expect(log).toContain(PURGED.toISOString())
})

test('an erasure deletes secrets that were set while it ran, and reports when they are purged', async () => {
  const late = new Date(PURGED.getTime() + 60_000)
  const answers = [
    { at: PURGED, isExact: true },
    { at: late, isExact: false },
  ]
  const { last, steps } = await erase(async () => answers.shift())

  expect(steps).toEqual(['secrets of ada', 'rows', 'secrets of ada', 'rows'])
  expect(last).toMatchObject({ isComplete: true, secretsPurgedBy: late.toISOString() })
  expect(last).not.toHaveProperty('secretsPurgedAt')
})

test('an erasure reports the latest date of the purge if the vault did not report the date', async () => {
  const { last } = await erase(async () => ({ at: PURGED, isExact: false }))

  expect(last).toMatchObject({ isComplete: true, secretsPurgedBy: PURGED.toISOString() })
  expect(last).not.toHaveProperty('secretsPurgedAt')
})

test.each<[string, RunDeps['eraseSecrets']]>([
  ['no vault', undefined],
  ['no secret', async () => undefined],
])('an erasure with %s reports no purge', async (_what, eraseSecrets) => {
  const { last } = await erase(eraseSecrets)

  expect(last?.isComplete).toBe(true)
  expect(last).not.toHaveProperty('secretsPurgedAt')
})

test('an operator cannot erase the own data, and the error names the alternatives', async () => {
  await expect(erase(undefined, 'root')).rejects.toThrow(
    'Another operator can. On your own machine, you can stop the service and delete its state folder',
  )
})
