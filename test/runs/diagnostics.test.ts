import { expect, it } from 'vitest'
import type { RunDeps } from '../../runtime/api/runs/deps.ts'
import { readDiagnostics } from '../../runtime/api/runs/reads/diagnostics.ts'
import { createPresence } from '../../runtime/api/runs/replicas/presence.ts'
import { silentLog } from '../../runtime/kit/log.ts'

const broken = async () => {
  throw new Error('connect ECONNREFUSED to db-secret')
}

function depsWithBrokenStore() {
  const deps = {
    store: { engine: 'postgres', ping: broken, readFigures: broken, listReplicas: broken },
    provider: { shared: {}, pools: () => [], checks: () => [{ name: 'watch', ok: true, detail: '' }] },
    clock: () => new Date('2026-01-01T00:00:00.000Z'),
    redactText: (text: string) => text.replace('db-secret', '[redacted]'),
    log: silentLog,
  } as unknown as RunDeps
  return { ...deps, presence: createPresence(deps) }
}

it('returns the other parts while the store cannot be used', async () => {
  const found = await readDiagnostics(depsWithBrokenStore(), { owner: 'root', role: 'operator' })

  expect(found.store).toEqual({
    engine: 'postgres',
    usable: false,
    problem: 'connect ECONNREFUSED to [redacted]',
  })
  expect(found.work).toBeUndefined()
  expect(found.replicas).toEqual([expect.objectContaining({ isThis: true, isAlive: true })])
  expect(found.checks).toHaveLength(1)
})

it.each(['user', 'approver'] as const)('is not for the role %s', async (role) => {
  await expect(readDiagnostics(depsWithBrokenStore(), { owner: 'ada', role })).rejects.toMatchObject({
    code: 'forbidden',
  })
})
