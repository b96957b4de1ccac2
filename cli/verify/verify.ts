import { messageOf } from '../../runtime/kit/errors.ts'
import { type Check, fail, NotRun, notRun, type Stage, type Verified } from './check.ts'
import { accounts, identity } from './identity-checks.ts'
import { capacity, pools, taints } from './node-checks.ts'
import { fences, fqdn, kernel, warm } from './sandbox-checks.ts'

/** In the order in which they are told. */
export const CHECKS: readonly Check[] = [
  pools,
  capacity,
  taints,
  kernel,
  fences,
  fqdn,
  accounts,
  identity,
  warm,
]

/** Runs the checks one after another: they share a sandbox, and a claim that is timed has the service for itself. */
export async function verify(
  stage: Stage,
  checks: readonly Check[],
  on: (check: Check) => void,
): Promise<Verified[]> {
  const verified: Verified[] = []
  for (const check of checks) {
    on(check)
    verified.push({ check: check.id, ...(await outcomeOf(check, stage)) })
  }
  return verified
}

/** A check that cannot say is `not run`; one that breaks has failed, as what it would have shown is not shown. */
async function outcomeOf(check: Check, stage: Stage) {
  try {
    return await check.run(stage)
  } catch (error) {
    return error instanceof NotRun ? notRun(error.message) : fail(messageOf(error))
  }
}
