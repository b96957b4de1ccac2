import type { ErasedData } from '../../../../contracts/owner-data.ts'
import { SandboxError } from '../../../kit/errors.ts'
import type { Store } from '../../../store/store.ts'
import type { SecretPurge } from '../../credentials/user-vault.ts'
import type { AuditTrail } from '../audit-trail.ts'
import type { RunDeps } from '../deps.ts'
import { isFinal } from '../run-view.ts'
import type { Caller } from '../service.ts'
import { runsOf } from './runs-of-owner.ts'

/** Events of one transaction: other writers wait as long. */
const EVENTS_AT_ONCE = 2_000
const MAX_NAMED = 3

type Deps = Pick<RunDeps, 'clock' | 'log' | 'eraseSecrets'> & {
  readonly store: Pick<Store, 'listRuns' | 'eraseOwner' | 'deleteEvents' | 'transaction'>
}
type Erasures = Pick<AuditTrail, 'recordErasure'>

/**
 * Erases an owner: keys first, then run by run. An erasure that breaks off is continued by the next one; so is one during which the
 * owner started a run. Of each run only its final head stays, in the deployment's chain.
 */
export async function eraseOwner(
  deps: Deps,
  audit: Erasures,
  { caller, owner }: { readonly caller: Caller; readonly owner: string },
): Promise<AsyncGenerator<ErasedData>> {
  if (caller.role !== 'operator')
    throw new SandboxError('forbidden', 'Only an operator erases the data of an owner.')
  if (owner === caller.owner) {
    const why =
      'You cannot erase your own data: your key would be gone in the middle of it. Another operator can. On your own machine, you can stop the service and delete its state folder, which "agentweaver config" shows.'
    throw new SandboxError('conflict', why)
  }
  await refuseOpenRuns(deps, owner)
  return erase(deps, audit, { caller, owner })
}

async function refuseOpenRuns({ store }: Pick<Deps, 'store'>, owner: string): Promise<void> {
  const open = (await Array.fromAsync(runsOf(store, owner))).filter((run) => !isFinal(run))
  if (open.length === 0) return
  const names = open.slice(0, MAX_NAMED).map(({ id }) => id)
  const more = open.length > MAX_NAMED ? ` and ${open.length - MAX_NAMED} more` : ''
  throw new SandboxError(
    'conflict',
    `${owner} has runs or sandboxes that have not ended: ${names.join(', ')}${more}. Cancel them first, then erase again.`,
  )
}

function purgeIn(
  purge: SecretPurge | undefined,
): Pick<ErasedData, 'secretsPurgedAt' | 'secretsPurgedBy'> | undefined {
  if (!purge) return undefined
  const at = purge.at.toISOString()
  return purge.isExact ? { secretsPurgedAt: at } : { secretsPurgedBy: at }
}

async function* erase(
  deps: Deps,
  audit: Erasures,
  { caller, owner }: { readonly caller: Caller; readonly owner: string },
): AsyncGenerator<ErasedData> {
  const { store, log, eraseSecrets } = deps
  const purged = purgeIn(await eraseSecrets?.(owner))
  // Another erasure, which continues this one if it breaks off, may not get the exact date.
  if (purged) log.info('the secrets of an owner were deleted', purged)
  // The keys first, so that no new run can be started with them.
  const keys = await store.eraseOwner(owner)
  const counts = { runs: 0, events: 0, records: 0, keys }
  const progress = () => ({ isComplete: false, ...counts, ...purged })
  for (const { id } of await Array.fromAsync(runsOf(store, owner))) {
    for (let deleted = EVENTS_AT_ONCE; deleted === EVENTS_AT_ONCE; ) {
      deleted = await store.deleteEvents(id, EVENTS_AT_ONCE)
      counts.events += deleted
      yield progress()
    }
    counts.records += await eraseRun(deps, audit, { id, actor: `person:${caller.owner}` })
    counts.runs += 1
    yield progress()
  }
  // The owner may have set a credential since the first deletion.
  const late = purgeIn(await eraseSecrets?.(owner))
  if (late) log.info('the secrets of an owner were deleted', late)
  // Contents that the erased runs used are unused now.
  await store.eraseOwner(owner)
  // A person who signs in can have started a run in between, without a key. Then this is not complete.
  await refuseOpenRuns(deps, owner)
  const { value: left } = await runsOf(store, owner).next()
  if (left) throw new SandboxError('conflict', `${owner} has run ${left.id} since. Erase again.`)
  log.info('the data of an owner was erased', { by: caller.owner, runs: counts.runs, keys })
  yield { ...counts, ...(late ?? purged), isComplete: true }
}

const eraseRun = (
  { store, clock }: Deps,
  audit: Erasures,
  { id, actor }: { readonly id: string; readonly actor: string },
): Promise<number> =>
  store.transaction(async (tx) => {
    const run = await tx.readRun(id)
    if (!run) return 0
    if (!isFinal(run)) throw new SandboxError('conflict', `${id} has not ended.`)
    await audit.recordErasure(tx, id, { at: clock().toISOString(), actor })
    return tx.eraseRun(id)
  })
