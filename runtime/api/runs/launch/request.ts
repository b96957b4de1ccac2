import { SandboxError } from '../../../kit/errors.ts'
import type { RunRow, Transaction } from '../../../store/store.ts'
import { createAuditTrail } from '../audit-trail.ts'
import type { RunDeps } from '../deps.ts'
import { closeOpen } from '../drive/finish.ts'
import { requireHeld } from '../held-run.ts'
import { claimName } from '../ids.ts'
import { transition } from '../machine/transition.ts'
import { discardClaim } from './attach.ts'
import type { LaunchedSandbox } from './launched-sandbox.ts'

/** A request for a sandbox. Its row, with what its provider needs to find it again, is stored before the claim is made. */
export type Requested = { readonly claim: LaunchedSandbox['claim']; readonly handle: unknown }

type RequestDeps = Pick<RunDeps, 'provider' | 'keys' | 'clock'>

/** The request for the next sandbox of a run. */
export function draftRequest({ provider }: RequestDeps, run: RunRow): Requested {
  const generation = run.generation + 1
  const name = claimName(run.kind, run.id, generation)
  return { claim: { namespace: provider.namespace, name, generation }, handle: provider.draft(name) }
}

export async function storeRequest(
  tx: Transaction,
  { keys, clock }: RequestDeps,
  { runId, request }: { readonly runId: string; readonly request: Requested },
): Promise<void> {
  const { claim, handle } = request
  const createdAt = clock().toISOString()
  const row = { ...claim, runId, keyId: keys.keyId, state: 'requested', createdAt } as const
  await tx.upsertClaim({ ...row, ...(handle !== undefined && { handle }) })
}

/** Repeats a launch that another driver did not finish. Of its sandbox, only setup commands can have been committed. */
export async function requestAgain(deps: RunDeps, run: RunRow): Promise<Requested> {
  await discardClaim(deps, run)
  const request = draftRequest(deps, run)
  const { generation } = request.claim
  const audit = createAuditTrail(deps.keys)
  let attempts = 0
  await deps.store.transaction(async (tx) => {
    attempts += 1
    const current = requireHeld(run, await tx.readRun(run.id))
    // An earlier attempt was committed, and its answer was lost.
    if (attempts > 1 && current.state === 'starting' && current.generation === generation) return
    if (current.generation !== run.generation)
      throw new SandboxError('conflict', `run ${run.id} is launched already`)
    const at = deps.clock().toISOString()
    await closeOpen(tx, current, { audit, at, why: 'the launch was repeated' })
    await transition(tx, current, { event: { kind: 'launch_repeated' }, facts: { generation } })
    await storeRequest(tx, deps, { runId: run.id, request })
  })
  return request
}
