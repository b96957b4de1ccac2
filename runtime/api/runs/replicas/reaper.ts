import { bestEffort } from '../../../kit/best-effort.ts'
import { messageOf } from '../../../kit/errors.ts'
import type { DeploymentClaims, FoundClaim } from '../../../sandboxes/provider.ts'
import { QUEUED_STATES } from '../../../store/queue.ts'
import type { ClaimRow, RunRow } from '../../../store/store.ts'
import type { AuditTrail } from '../audit-trail.ts'
import type { RunDeps } from '../deps.ts'
import { repeat } from '../repeat.ts'

export const REAPER = {
  everyMs: 120_000,
  /** A claim as young as this may be one whose row or whose answer is still on its way. */
  graceMs: 300_000,
  /** Who holds it looks; a process that is gone is followed by another one two rounds later at most. */
  lease: 'reaper',
} as const

/** Claims looked at in one round: the rest is the next round's. */
const BATCH = 100

/** What this process has done as a reaper since it started, for its figures. */
export class ReaperFigures {
  reaped = 0
  /** Deletions that were asked for and not seen through; the next round asks again. */
  failed = 0
  /** When it last looked, or began to wait for its turn; none where no reaper is needed. */
  lookedAt: Date | undefined
}

type Timing = { readonly everyMs: number; readonly graceMs: number }
type Parts = {
  readonly claims: DeploymentClaims
  readonly audit: AuditTrail
  readonly figures: ReaperFigures
  readonly timing?: Timing
}

/**
 * Looks for claims of this deployment that no live run has, and deletes them with all they have. Of several processes
 * one does. It is the belt: what ends in good order leaves nothing for it.
 */
export function startReaper(deps: RunDeps, parts: Parts): { stop(): Promise<void> } {
  const { everyMs } = parts.timing ?? REAPER
  parts.figures.lookedAt = deps.clock()
  const round = async () => {
    const { store, holder, log } = deps
    try {
      if (await store.acquireLease(REAPER.lease, holder.id, everyMs * 2)) await reap(deps, parts)
    } catch (error) {
      log.warn('claims could not be looked through', { error: messageOf(error) })
    }
  }
  return repeat(round, everyMs)
}

const keyOf = ({ namespace, name }: Pick<FoundClaim, 'namespace' | 'name'>) => `${namespace}/${name}`

/** One round. Returns the deleted claims. */
export async function reap(deps: RunDeps, parts: Parts): Promise<FoundClaim[]> {
  const { claims, audit, figures, timing = REAPER } = parts
  const { store, clock, log } = deps
  const startedAt = clock()
  const oldest = startedAt.getTime() - timing.graceMs
  // The cluster first: a claim whose row comes later is young.
  const present = await claims.list()
  figures.lookedAt = startedAt
  const found = present.filter(({ createdAt }) => createdAt.getTime() < oldest)
  const rows = new Map((await store.listClaims(['requested', 'bound'])).map((row) => [keyOf(row), row]))
  await releaseRows(deps, rows, { present, oldest })
  const reaped: FoundClaim[] = []
  const reapOne = async (claim: FoundClaim) => {
    const row = rows.get(keyOf(claim))
    const why = await reasonFor(deps, claim, row)
    if (why === undefined) return
    await bestEffort(log, `delete the claim ${claim.name}, of which ${why}`, async () => {
      const wasThere = await claims.remove(claim).catch((error: unknown) => {
        figures.failed += 1
        throw error
      })
      if (!wasThere) return
      figures.reaped += 1
      await record(deps, audit, { claim, row, why })
      log.warn('a claim that no run has was deleted', { claim: claim.name, uid: claim.uid, why })
      reaped.push(claim)
    })
  }
  // One whose node is away takes its whole deadline, and must not keep the others waiting.
  await Promise.all(found.slice(0, BATCH).map(reapOne))
  return reaped
}

/** Why a claim is not needed any more. Undefined if it may be needed. */
async function reasonFor({ store }: RunDeps, claim: FoundClaim, row: ClaimRow | undefined) {
  if (!row) return 'nothing is known that is not given back'
  if (row.uid !== undefined && row.uid !== claim.uid) return 'the row has another UID'
  return whyUnneeded(row, await store.readRun(row.runId))
}

/** A run gives its sandbox back after it was stored without one. A process that dies in between leaves the claim. */
function whyUnneeded({ generation }: ClaimRow, run: RunRow | undefined): string | undefined {
  if (!run) return 'the run is not known'
  if (run.endedAt !== undefined) return `the run ${run.id} has ended`
  if (run.state === 'suspended') return `the run ${run.id} is suspended`
  if (QUEUED.has(run.state)) return `the run ${run.id} waits in the queue`
  return generation < run.generation ? `the run ${run.id} has a newer one` : undefined
}

const QUEUED: ReadonlySet<RunRow['state']> = new Set(QUEUED_STATES)

type Seen = { readonly present: readonly FoundClaim[]; readonly oldest: number }

/** Rows whose claim is gone from the cluster already: a process deleted it, and died before it could store that. */
async function releaseRows(
  { store, log }: RunDeps,
  rows: ReadonlyMap<string, ClaimRow>,
  { present, oldest }: Seen,
): Promise<void> {
  const there = new Set(present.map(keyOf))
  const gone = [...rows].filter(([key, row]) => !there.has(key) && Date.parse(row.createdAt) < oldest)
  for (const [key, row] of gone.slice(0, BATCH)) {
    await bestEffort(log, `release the row of the claim ${key}`, async () => {
      if (whyUnneeded(row, await store.readRun(row.runId)) === undefined) return
      await store.transaction((tx) => tx.changeClaim(row, { state: 'released' }))
    })
  }
}

type Reaped = { readonly claim: FoundClaim; readonly row: ClaimRow | undefined; readonly why: string }

/** In the deployment's chain: a run that has ended has its chain sealed. */
async function record(
  { store, clock }: RunDeps,
  audit: AuditTrail,
  { claim, row, why }: Reaped,
): Promise<void> {
  await store.transaction(async (tx) => {
    // The row of another claim of that name stays as it is.
    if (row && (row.uid ?? claim.uid) === claim.uid) await tx.changeClaim(row, { state: 'released' })
    await audit.append(tx, '', [
      {
        kind: 'outcome',
        runId: '',
        callId: claim.uid,
        actor: 'agentweaver',
        tool: 'sandbox.reap',
        policyVersion: '',
        outcome: `deleted ${keyOf(claim)}: ${why}`,
        at: clock().toISOString(),
      },
    ])
  })
}
