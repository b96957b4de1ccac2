import { AuditPage, AuditVerification } from '../../contracts/audit.ts'
import { Diagnostics } from '../../contracts/diagnostics.ts'
import { ErasedData, OwnerDataLine } from '../../contracts/owner-data.ts'
import { API_ROUTES } from '../../contracts/routes.ts'
import type { CallOptions, PageQuery, Parts } from './call-parts.ts'
import { linesOf, parseAnswer } from './parse-answer.ts'

export type AuditFilter = PageQuery & {
  readonly tool?: string
  readonly decision?: string
  /** ISO 8601. */
  readonly since?: string
  readonly until?: string
}
/** The id of a run, or `deployment`. */
type OneChain = { readonly run?: string }

export function auditCalls({ transport, call }: Parts) {
  const path = API_ROUTES.audit
  return {
    /** Oldest first. Needs the role operator or auditor. */
    readAudit: (query: AuditFilter & OneChain = {}, options?: CallOptions) =>
      call(AuditPage, { method: 'GET', path, query, ...options }),
    readRunAudit: (id: string, query: AuditFilter = {}, options?: CallOptions) =>
      call(AuditPage, {
        method: 'GET',
        path: `${API_ROUTES.runs}/${encodeURIComponent(id)}/audit`,
        query,
        ...options,
      }),
    /** Lets the service verify the audit chains. Yields progress reports; the last one is complete. */
    async *verifyAudit(query: OneChain = {}, options?: CallOptions): AsyncGenerator<AuditVerification> {
      const answer = await transport.open({ method: 'GET', path: `${path}/verification`, query, ...options })
      for await (const line of linesOf(answer.body ?? emptyBody())) {
        yield parseAnswer(AuditVerification, line)
      }
    },
  }
}

export function diagnosticCalls({ call }: Parts) {
  return {
    /** Needs the role operator or auditor. */
    readDiagnostics: (options?: CallOptions) =>
      call(Diagnostics, { method: 'GET', path: API_ROUTES.diagnostics, ...options }),
  }
}

export function dataCalls({ transport }: Parts) {
  const path = API_ROUTES.data
  return {
    /** What the service stores of an owner; the caller by default. The last line has the type `end`. */
    async *exportData(query: { owner?: string } = {}, options?: CallOptions): AsyncGenerator<OwnerDataLine> {
      const answer = await transport.open({ method: 'GET', path, query, ...options })
      for await (const line of linesOf(answer.body ?? emptyBody())) yield parseAnswer(OwnerDataLine, line)
    },
    /** Erases an owner whose runs have ended. Yields progress reports; the last one is complete. */
    async *eraseData(query: { owner: string }, options?: CallOptions): AsyncGenerator<ErasedData> {
      const answer = await transport.open({ method: 'DELETE', path, query, ...options })
      for await (const line of linesOf(answer.body ?? emptyBody())) yield parseAnswer(ErasedData, line)
    },
  }
}

/** The body of an answer without one. */
export async function* emptyBody(): AsyncGenerator<Uint8Array> {}
