import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { assertions } from '../../charts-src/access-matrix/assertions.ts'
import { worldOf } from '../../charts-src/access-matrix/check-reachability.ts'
import { addNetwork } from '../../charts-src/apps/network.ts'
import { loadEnvironment } from '../../charts-src/environment/load-environment.ts'
import type { Environment } from '../../charts-src/environment/schema.ts'
import { chartObjects } from '../../charts-src/tree/chart-objects.ts'
import { readEgressPolicy } from '../../policies/agent/egress/load.ts'
import { type Mutant, mutants } from './mutate.ts'
import { REDUNDANT } from './redundant-mutants.ts'

const EGRESS = readEgressPolicy()

function environmentNamed(name: string, mode: Environment['egress']['mode']): Environment {
  const file = join(import.meta.dirname, `../../environments/${name}.json`)
  const loaded = loadEnvironment(name, readFileSync(file, 'utf8'))
  if (!loaded.ok) throw new Error(loaded.mistakes.join('\n'))
  return { ...loaded.environment, egress: { mode } }
}

/** Whether an assertion fails, or the policies are refused altogether. */
function isNoticed({ objects }: Mutant, environment: Environment): boolean {
  const outcome = worldOf(objects, environment, EGRESS)
  if (!outcome.ok) return true
  for (const { failure } of assertions(outcome.world)) if (failure !== undefined) return true
  return false
}

const LEAST = { fqdn: 400, closed: 350, proxy: 550 } as const

export type Tree = readonly [
  environment: 'dev' | 'prod' | 'local' | 'pr-example',
  mode: Environment['egress']['mode'],
]

/** Shows that every rule of these trees is needed: without it, an assertion fails. */
export function testMutants(trees: readonly Tree[]): void {
  describe.each(trees)('%s, mode %s', (name, mode) => {
    const environment = environmentNamed(name, mode)
    const all = [...mutants(chartObjects((chart) => addNetwork(chart, environment, EGRESS)))]
    let unnoticed: readonly string[] = []
    beforeAll(() => {
      unnoticed = all.filter((mutant) => !isNoticed(mutant, environment)).map(({ title }) => title)
    })

    it('breaks an assertion for every rule that is deleted, widened or re-targeted', () => {
      const surviving = unnoticed.filter((title) => !REDUNDANT.some(({ mutant }) => mutant.test(title)))

      expect(surviving).toEqual([])
      expect(all.length).toBeGreaterThan(LEAST[mode])
      expect(new Set(all.map(({ kind }) => kind))).toEqual(new Set(['deleted', 'widened', 're-targeted']))
    })

    it('lists as redundant only mutants that change nothing', () => {
      for (const { mutant } of REDUNDANT) expect(unnoticed.some((title) => mutant.test(title))).toBe(true)
      expect(unnoticed.length).toBeLessThan(all.length / 20)
    })
  })
}
