import { expect, it } from 'vitest'
import { BACKENDS } from './backends.ts'
import { planRound, SHAPES } from './plan.ts'
import { scriptOf } from './shapes.ts'

const plans = BACKENDS.flatMap((backend) =>
  Array.from({ length: 100 }, (_, seed) => planRound({ seed, backend, runs: 10 })),
)

it('returns the same schedule for the same seed, and another one for another seed', () => {
  const request = { seed: 7, backend: 'postgres', runs: 10 } as const

  expect(planRound(request)).toEqual(planRound(request))
  expect(planRound(request)).not.toEqual(planRound({ ...request, seed: 8 }))
})

it('keeps the runs of a schedule when more are asked for', () => {
  const few = planRound({ seed: 7, backend: 'sqlite', runs: 3 })
  const many = planRound({ seed: 7, backend: 'sqlite', runs: 10 })

  expect(many.runs.slice(0, 3)).toEqual(few.runs)
  expect(many.faults).toEqual(few.faults)
})

it('reaches every shape of run, every kind of fault and every process', () => {
  const faults = plans.flatMap((plan) => plan.faults.map(({ action }) => action))
  const targets = faults.map((action) =>
    'target' in action ? `${action.kind} ${action.target}` : action.kind,
  )

  expect(new Set(plans.flatMap(({ runs }) => runs.map(({ shape }) => shape)))).toEqual(new Set(SHAPES))
  expect([...new Set(targets)].toSorted()).toEqual([
    'cut-streams',
    'delete-pod',
    'fill-disk',
    'kill agent-host',
    'kill api',
    'kill command',
    'kill runner',
    'kill-at-commit',
    'lock-store',
    'refuse-database',
    'reset-sandbox-connections',
    'reset-watches',
    'restart',
    'silence-database',
    'slow-database',
    'stop agent-host',
    'stop api',
    'stop command',
    'stop runner',
    'terminate-connections',
  ])
})

it('gives every command of a round its own mark', () => {
  for (const { runs } of plans) {
    const names = runs
      .map(scriptOf)
      .flatMap(({ marks, commands }) => [...marks, ...commands].map(({ name }) => name))
    expect(new Set(names).size).toBe(names.length)
  }
})
