import type { AuditHead, AuditRecord } from '../../contracts/audit.ts'
import { canonicalJson } from '../kit/canonical-json.ts'
import { headMac, paramsHash, recordMac } from './mac.ts'
import type { AuditKey, AuditRow } from './record.ts'

type Said = Omit<AuditRecord, 'version' | 'sequence' | 'keyId'>
/** These carry the final head of a run's chain, and separate functions write them. */
type Sealing = 'seal' | 'run.erased'

/** A record to be written about one action: before it (`intent`), after it (`outcome`), or together with it. */
export type AuditDraft = Omit<Said, 'kind' | 'paramsHash' | 'sealed'> & {
  readonly kind: Exclude<AuditRecord['kind'], Sealing>
  /** The parameters. The record stores only their keyed hash. */
  readonly params?: unknown
}

export interface AuditLinks {
  readonly rows: AuditRow[]
  /** Head of the chain after these rows. */
  readonly head: AuditHead
}

/** Appends records to a chain. Pure: the caller stores the rows and the head in one transaction. */
export function chainRecords(head: AuditHead, drafts: readonly AuditDraft[], key: AuditKey): AuditLinks {
  return link(
    head,
    drafts.map(({ params, ...said }) => ({
      ...said,
      ...(params !== undefined && { paramsHash: paramsHash(key.key, params) }),
    })),
    key,
  )
}

export interface EndedRun {
  readonly runId: string
  /** Final head of the run's chain. */
  readonly head: AuditHead
  readonly at: string
}

/** Records the final head of an ended run in the deployment's chain, which has the empty run id. */
export function sealRun(run: EndedRun, deployment: AuditHead, key: AuditKey): AuditLinks {
  const seal = {
    kind: 'seal',
    runId: '',
    callId: run.runId,
    actor: 'agentweaver',
    tool: 'audit.seal',
    policyVersion: '',
    at: run.at,
    sealed: { runId: run.runId, count: run.head.count, mac: run.head.mac },
  } as const
  return link(deployment, [seal], key)
}

/** Records in the deployment's chain that a run was erased with its records, whose final head stays here. */
export function recordErasure(
  { runId, head, at, actor }: EndedRun & { readonly actor: string },
  deployment: AuditHead,
  key: AuditKey,
): AuditLinks {
  const erased = {
    kind: 'run.erased',
    runId: '',
    callId: runId,
    actor,
    tool: 'data.erase',
    policyVersion: '',
    at,
    sealed: { runId, count: head.count, mac: head.mac },
  } as const
  return link(deployment, [erased], key)
}

function link(start: AuditHead, said: readonly Said[], { keyId, key }: AuditKey): AuditLinks {
  const rows: AuditRow[] = []
  let head = start
  for (const fields of said) {
    if (fields.runId !== said[0]?.runId) throw new Error('audit drafts of several runs in one chain')
    const { runId, at, tool, decision = '' } = fields
    const sequence = head.count + 1
    const record = canonicalJson({ ...fields, version: 1, sequence, keyId } satisfies AuditRecord)
    const mac = recordMac(key, head, record)
    rows.push({ runId, sequence, at, tool, decision, record, mac })
    head = { count: sequence, mac: headMac(key, runId, { count: sequence, mac }) }
  }
  return { rows, head }
}
