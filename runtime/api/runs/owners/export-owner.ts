import type { OwnerDataLine } from '../../../../contracts/owner-data.ts'
import { entryOf } from '../../../audit/entry.ts'
import { SandboxError } from '../../../kit/errors.ts'
import { present } from '../../../kit/present.ts'
import { toUserCredential } from '../../credentials/user-credentials.ts'
import { toApiKey } from '../../people/api-keys.ts'
import { readsWholeAudit } from '../../people/rights.ts'
import type { AuditTrail } from '../audit-trail.ts'
import type { RunDeps } from '../deps.ts'
import type { RunViews } from '../queue/queue-view.ts'
import type { Caller } from '../service.ts'
import { pagesOf, runsOf } from './runs-of-owner.ts'

/** Events of one read. */
const EVENTS_AT_ONCE = 200

type Deps = Pick<RunDeps, 'store' | 'clock'> & { readonly views: RunViews }
type Lines = AsyncGenerator<OwnerDataLine>

/**
 * Exports what the store has of an owner, one line at a time. The files of runs are not in it: they are results, with their own
 * routes. An export of another person's data is in the audit.
 */
export async function exportOwner(
  deps: Deps,
  audit: AuditTrail,
  { caller, owner }: { readonly caller: Caller; readonly owner: string },
): Promise<Lines> {
  if (owner !== caller.owner) {
    if (!readsWholeAudit(caller))
      throw new SandboxError('forbidden', 'Only an operator or an auditor exports the data of another owner.')
    await recordExport(deps, audit, { caller, owner })
  }
  return linesOf(deps, owner)
}

/** The record has a keyed hash of the owner and not the name, so that it can stay when the owner is erased. */
const recordExport = (
  { store, clock }: Deps,
  audit: AuditTrail,
  { caller, owner }: { readonly caller: Caller; readonly owner: string },
): Promise<void> =>
  store.transaction((tx) =>
    audit.append(tx, '', [
      {
        kind: 'data.exported',
        runId: '',
        callId: '',
        actor: `person:${caller.owner}`,
        tool: 'data.export',
        policyVersion: '',
        at: clock().toISOString(),
        params: { owner },
      },
    ]),
  )

async function* linesOf(deps: Deps, owner: string): Lines {
  const { store, clock, views } = deps
  yield { type: 'owner', owner, at: clock().toISOString() }
  yield* keysOf(deps, owner)
  for (const row of await store.listUserCredentials(owner))
    yield { type: 'credential', credential: toUserCredential(row) }
  yield* foldersOf(deps, owner)
  const count = { runs: 0, events: 0, records: 0 }
  for await (const row of runsOf(store, owner)) {
    yield { type: 'run', run: await views.of(row) }
    count.runs += 1
    for await (const event of eventsOf(store, row.id)) {
      yield { type: 'event', runId: row.id, event }
      count.events += 1
    }
    for await (const record of recordsOf(store, row.id)) {
      yield { type: 'audit', record }
      count.records += 1
    }
  }
  yield { type: 'end', ...count }
}

async function* keysOf({ store, clock }: Deps, owner: string): Lines {
  const pages = pagesOf((page) => store.listApiKeys({ owner, ...page }))
  for await (const row of pages) yield { type: 'key', key: toApiKey(row, clock()) }
}

async function* foldersOf({ store }: Deps, owner: string): Lines {
  const pages = pagesOf((page) => store.listTrustedFolders({ owner, ...page }))
  for await (const { path, trustedAt } of pages) {
    const { settings } = (await store.readTrustedFolder(owner, path)) ?? {}
    yield { type: 'trusted_folder', path, trustedAt, ...present({ settings }) }
  }
}

async function* eventsOf(store: Deps['store'], runId: string) {
  for (let after = 0; ; ) {
    const events = await store.readEvents(runId, after, EVENTS_AT_ONCE)
    yield* events
    const last = events.at(-1)
    if (!last) return
    after = last.sequence
  }
}

async function* recordsOf(store: Deps['store'], runId: string) {
  const pages = pagesOf((page) => store.readAudit({ runId, ...page }))
  for await (const row of pages) yield entryOf(row)
}
