import { messageOf } from '../../runtime/kit/errors.ts'
import type { Check, CheckInputs, Verified } from './check.ts'
import { accounts, identity } from './identity-checks.ts'
import { capacity, pools, taints } from './node-checks.ts'
import { fail, NotRun, notRun } from './outcome.ts'
import { fences, fqdn, kernel, warm } from './sandbox-checks.ts'

/** In output order. */
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

/** Runs the checks one by one, because they share a sandbox, and timed claims must not compete with other work. */
export async function verify(
  inputs: CheckInputs,
  checks: readonly Check[],
  on: (check: Check) => void,
): Promise<Verified[]> {
  const verified: Verified[] = []
  for (const check of checks) {
    on(check)
    verified.push({ check: check.id, ...(await outcomeOf(check, inputs)) })
  }
  return verified
}

/** `NotRun` makes the check `not run`. Any other error is a failure. */
async function outcomeOf(check: Check, inputs: CheckInputs) {
  try {
    return await check.run(inputs)
  } catch (error) {
    return error instanceof NotRun ? notRun(error.message) : fail(messageOf(error))
  }
}
