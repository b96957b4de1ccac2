import { randomUUID } from 'node:crypto'
import type { EgressPushed, EgressRunReport } from '../../../contracts/egress.ts'
import type { EgressReportBatch } from '../../../contracts/egress-control.ts'
import type { RunEvent } from '../../../contracts/events.ts'
import type { AuditDraft } from '../../audit/chain.ts'
import { bestEffort } from '../../kit/best-effort.ts'
import { SandboxError } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import type { RunEnding } from '../../store/columns.ts'
import type { RunRow, Store, Transaction } from '../../store/store.ts'
import { fingerprintIn } from '../credentials/user-credentials.ts'
import type { AuditTrail } from '../runs/audit-trail.ts'
import type { ByteShares } from './byte-shares.ts'
import type { ModelBudgets } from './model-budgets.ts'

export type ReportOfRun =
  | Omit<Extract<EgressRunReport, { type: 'anomaly' }>, 'runId'>
  | Omit<Extract<EgressRunReport, { type: 'credential-used' }>, 'runId'>
  | Omit<Extract<EgressRunReport, { type: 'denied' }>, 'runId'>
  | Omit<Extract<EgressRunReport, { type: 'model-use' }>, 'runId'>
  | Omit<Extract<EgressRunReport, { type: 'shares-settled' }>, 'runId'>
  | Omit<Extract<EgressRunReport, { type: 'pushed' }>, 'runId'>
  | Omit<Extract<EgressRunReport, { type: 'summary' }>, 'runId'>

/** Reports that become events. */
type Shown = Exclude<ReportOfRun, { type: 'model-use' | 'shares-settled' }>

export interface ReportWriterOptions {
  readonly store: Pick<Store, 'transaction'>
  readonly audit: AuditTrail
  readonly budgets: Pick<ModelBudgets, 'settle' | 'tell'>
  /** In a cluster, where replicas take shares. */
  readonly shares?: Pick<ByteShares, 'settle'>
  /** Removes the deployment's secrets: a command may put one into the name of a host. */
  readonly redact: (text: string) => string
  readonly clock: () => Date
  readonly log: Log
}

/** Writes the reports of the egress proxy into the event streams of their runs, and refusals into the audit trail. */
export class ReportWriter {
  readonly #options: ReportWriterOptions
  #writing: Promise<void> = Promise.resolve()

  constructor(options: ReportWriterOptions) {
    this.#options = options
  }

  write(runId: string, report: ReportOfRun): void {
    const { log } = this.#options
    const write = () =>
      bestEffort(log, 'store a report of the egress proxy', () => this.#write(runId, report))
    this.#writing = this.#writing.then(write)
  }

  /** Resolves when all earlier reports are stored. */
  settled(): Promise<void> {
    return this.#writing
  }

  /**
   * Stores the reports of a replica in their order. Reports that it has sent before are dropped. Throws if one could not be
   * stored; the replica then sends it and all later ones again.
   */
  async accept({ proxy, first, reports }: EgressReportBatch): Promise<void> {
    for (const [index, { runId, ...report }] of reports.entries()) {
      const number = first + index
      await this.#store(runId, async (tx) =>
        (await tx.acceptReport(proxy, number)) ? this.#append(tx, runId, report) : undefined,
      ).catch((error: unknown) => {
        // Sent again, it would only keep the reports of all other runs waiting.
        if (!(error instanceof SandboxError) || error.code !== 'store_damaged') throw error
        this.#options.log.error('a report of the egress proxy was lost', { runId, error })
      })
    }
  }

  #write(runId: string, report: ReportOfRun): Promise<void> {
    return this.#store(runId, (tx) => this.#append(tx, runId, report))
  }

  /** A run whose budget is used up ends after the commit. */
  async #store(runId: string, work: (tx: Transaction) => Promise<RunEnding | undefined>): Promise<void> {
    const { store, budgets } = this.#options
    budgets.tell(runId, await store.transaction(work))
  }

  async #append(tx: Transaction, runId: string, report: ReportOfRun): Promise<RunEnding | undefined> {
    const run = await tx.readRun(runId)
    if (!run) return undefined
    if (report.type === 'pushed') await this.#notePush(tx, run, report.data)
    if (report.type === 'model-use') return this.#options.budgets.settle(tx, run, report.data)
    if (report.type === 'shares-settled') await this.#options.shares?.settle(tx, runId, report.data)
    else if (run.endedAt === undefined) await this.#show(tx, run, report)
    return undefined
  }

  async #show(tx: Transaction, run: RunRow, report: Shown): Promise<void> {
    const { id: runId } = run
    const event = this.#eventOf(report)
    await tx.appendEvents(runId, [{ event }])
    if (event.type === 'egress.credential_used') await this.#noteUse(tx, run, event.data.credentialId)
    if (event.type === 'egress.denied') {
      const { host, port, rule, reason, count } = event.data
      const reasons = [`${host}:${port}`, `${rule}: ${reason}`, `${count} times`]
      await this.#options.audit.append(tx, runId, [
        this.#record(run, { kind: event.type, decision: 'deny', reasons }),
      ])
    }
    if (event.type === 'egress.anomaly') {
      const { kind, host, port, reason } = event.data
      const reasons = [port === 0 ? host : `${host}:${port}`, `${kind}: ${reason}`]
      await this.#options.audit.append(tx, runId, [this.#record(run, { kind: event.type, reasons })])
    }
  }

  /** Kept also for a run that has ended: its result may be pushed to the same branch. */
  async #notePush(tx: Transaction, { id, push }: RunRow, pushed: EgressPushed): Promise<void> {
    const of = push?.runId ?? id
    if (!pushed.ref.startsWith(`refs/heads/agentweaver/${of}/`)) return
    await tx.recordPushed(of, { ...pushed, at: this.#options.clock().toISOString() })
  }

  async #noteUse(tx: Transaction, { owner }: RunRow, id: string): Promise<void> {
    const fingerprint = fingerprintIn(id)
    if (fingerprint === undefined) return
    await tx.noteUserCredentialUse({ owner, fingerprint }, this.#options.clock().toISOString())
  }

  #eventOf({ type, data }: Shown): Extract<RunEvent, { type: `egress.${string}` }> {
    const { redact } = this.#options
    if (type === 'credential-used')
      return { type: 'egress.credential_used', data: { ...data, host: redact(data.host) } }
    if (type === 'pushed')
      return { type: 'egress.pushed', data: { ...data, repository: redact(data.repository) } }
    if (type === 'anomaly') return { type: 'egress.anomaly', data: { ...data, host: redact(data.host) } }
    if (type === 'denied') {
      const words = { host: redact(data.host), reason: redact(data.reason), remedy: redact(data.remedy) }
      const path = data.path === undefined ? {} : { path: redact(data.path) }
      return { type: 'egress.denied', data: { ...data, ...words, ...path } }
    }
    const hosts = data.hosts.map((one) => ({ ...one, host: redact(one.host) }))
    return { type: 'egress.summary', data: { ...data, hosts } }
  }

  #record(run: RunRow, about: Pick<AuditDraft, 'kind' | 'decision' | 'reasons'>): AuditDraft {
    return {
      runId: run.id,
      callId: `egress_${randomUUID().replaceAll('-', '')}`,
      actor: `agent:${run.agent.kind}`,
      tool: 'egress',
      policyVersion: run.policyVersion,
      ...about,
      at: this.#options.clock().toISOString(),
    }
  }
}
