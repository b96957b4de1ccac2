import {
  AUDIT_LIMITS,
  type AuditHead,
  type AuditProblem,
  type AuditVerification,
  DEPLOYMENT_CHAIN,
} from '../../contracts/audit.ts'
import { present } from '../kit/present.ts'
import { type AuditKey, type AuditRow, EMPTY_CHAIN, recordOf } from './record.ts'
import { type ChainFailure, ChainWalk, isSameHead } from './verify.ts'

/** Where chains are read from: the store, or a copy of one. The deployment's chain has the empty run id. */
export interface AuditSource {
  /** Rows of one chain in the order in which they were written. */
  readAudit(query: { readonly runId: string; readonly after?: string; readonly limit: number }): Promise<{
    items: AuditRow[]
    next?: string
  }>
  /** The stored head of a chain; undefined if the run does not exist. */
  readAuditHead(runId: string): Promise<(AuditHead & { readonly isEnded: boolean }) | undefined>
  /** The next id of a run, or the next run id in the audit, in the order of the database. */
  nextAuditChain(among: 'runs' | 'records', after: string): Promise<string | undefined>
}

const DEPLOYMENT = ''
const PAGE = 500
/** A report so often; the rest is waited for. */
const REPORT_EVERY_RECORDS = 20_000

/**
 * Checks the deployment's chain, then every sealed run against its seal there, and every other run against the head in
 * its row. Yields intermediate reports, and the complete report at the end. The store may be in use during the check.
 */
export async function* verifyDeployment(
  source: AuditSource,
  keys: readonly AuditKey[],
  only?: string,
): AsyncGenerator<AuditVerification> {
  const check = new DeploymentCheck(source, keys, only)
  let reportedAt = 0
  for await (const _ of check.run()) {
    if (check.records - reportedAt < REPORT_EVERY_RECORDS) continue
    reportedAt = check.records
    yield check.report(false)
  }
  yield check.report(true)
}

type Ended = { readonly runId: string; readonly count: number }
type Seal = { readonly runId: string; readonly head: AuditHead }

class DeploymentCheck {
  records = 0
  readonly #source: AuditSource
  readonly #keys: readonly AuditKey[]
  readonly #only: string | undefined
  readonly #sealed = new Set<string>()
  /** Runs that the deployment's chain calls erased. */
  readonly #erased = new Set<string>()
  /** Sealed runs of which nothing is stored, unless a later record of the chain says that they were erased. */
  readonly #absent = new Map<string, ChainFailure>()
  readonly #problems: AuditProblem[] = []
  #problemCount = 0
  #chains = 0
  /** The head of the deployment's chain; undefined where the chain does not hold. */
  #head: AuditHead | undefined

  constructor(source: AuditSource, keys: readonly AuditKey[], only: string | undefined) {
    this.#source = source
    this.#keys = keys
    this.#only = only
  }

  report(isComplete: boolean): AuditVerification {
    return {
      isComplete,
      ok: this.#problemCount === 0,
      chains: this.#chains,
      records: this.records,
      problems: [...this.#problems],
      problemCount: this.#problemCount,
      ...(this.#head && { head: this.#head }),
    }
  }

  /** Yields after every chain. */
  async *run(): AsyncGenerator<void> {
    yield* this.#checkDeployment()
    const ended: Ended[] = []
    for (const among of ['runs', 'records'] as const) {
      for await (const runId of this.#chainsAmong(among)) {
        const stored = await this.#checkUnsealed(runId)
        if (stored?.isEnded) ended.push({ runId, count: stored.count })
        yield
      }
    }
    if (ended.length > 0) yield* this.#findUnsealed(ended)
  }

  /** A run may have ended since the deployment's chain was read, so that is read again first. */
  async *#findUnsealed(ended: readonly Ended[]): AsyncGenerator<void> {
    // Where the deployment's chain does not hold, the missing seals are part of that.
    if (this.#head) yield* this.#checkDeployment()
    if (!this.#head) return
    for (const { runId, count } of ended) {
      if (!this.#sealed.has(runId)) this.#add(runId, { at: count, problem: 'unsealed' })
    }
  }

  /** Chains that have no seal. */
  async *#chainsAmong(among: 'runs' | 'records'): AsyncGenerator<string> {
    for await (const runId of this.#allAmong(among)) {
      // A run's records were looked at with the run.
      const isKnown = among === 'records' && (await this.#source.readAuditHead(runId)) !== undefined
      if (!isKnown && !this.#sealed.has(runId)) yield runId
    }
  }

  async *#allAmong(among: 'runs' | 'records'): AsyncGenerator<string> {
    if (this.#only !== undefined) {
      if (among === 'runs' && this.#only !== DEPLOYMENT_CHAIN) yield this.#only
      return
    }
    for (let after = DEPLOYMENT; ; ) {
      const next = await this.#source.nextAuditChain(among, after)
      if (next === undefined) return
      yield next
      after = next
    }
  }

  /** Follows the deployment's chain, and checks each run that it seals. */
  async *#checkDeployment(): AsyncGenerator<void> {
    const isFirst = this.#chains === 0
    // The head first: the chain may grow while it is read.
    const stored = (await this.#source.readAuditHead(DEPLOYMENT)) ?? EMPTY_CHAIN
    const walk = new ChainWalk(this.#keys)
    let isAtHead = isSameHead(walk.head, stored)
    let failure: ChainFailure | undefined
    for await (const rows of this.#pages(DEPLOYMENT)) {
      const seals: Seal[] = []
      failure = walk.follow(rows, (row, after) => {
        isAtHead ||= isSameHead(after, stored)
        const { kind, sealed } = recordOf(row)
        if (kind === 'run.erased' && sealed) this.#erased.add(sealed.runId)
        if (kind === 'seal' && sealed) seals.push({ runId: sealed.runId, head: sealed })
      })
      for (const seal of seals.filter(({ runId }) => !this.#sealed.has(runId))) {
        await this.#checkSealed(seal)
        yield
      }
      if (failure) break
    }
    this.#reportAbsent()
    failure ??= isAtHead ? undefined : walk.endsAt(stored)
    this.#head = failure ? undefined : walk.head
    if (isFirst) this.#chains += 1
    if (failure) this.#add(DEPLOYMENT_CHAIN, failure)
  }

  async #checkSealed({ runId, head }: Seal): Promise<void> {
    this.#sealed.add(runId)
    if (this.#only !== undefined && this.#only !== runId) return
    this.#chains += 1
    const walk = new ChainWalk(this.#keys)
    const failure = (await this.#follow(walk, runId)) ?? walk.endsAt(head)
    const stored = await this.#source.readAuditHead(runId)
    const isAbsent = !stored && walk.head.count === 0 && failure?.problem === 'truncated'
    if (isAbsent) this.#absent.set(runId, failure)
    else if (failure) this.#add(runId, failure)
    if (failure) return
    if (stored && !isSameHead(stored, head)) this.#add(runId, { at: head.count, problem: 'edited' })
  }

  #reportAbsent(): void {
    for (const [runId, failure] of this.#absent) {
      if (!this.#erased.has(runId)) this.#add(runId, failure)
    }
    this.#absent.clear()
  }

  /** Checks a run against the head in its row; returns what its row has. */
  async #checkUnsealed(runId: string): ReturnType<AuditSource['readAuditHead']> {
    this.#chains += 1
    const stored = await this.#source.readAuditHead(runId)
    if (!stored) {
      this.#add(runId, { at: 1, problem: 'unknownRun' })
      return undefined
    }
    const walk = new ChainWalk(this.#keys)
    let isAtHead = isSameHead(walk.head, stored)
    const failure = await this.#follow(walk, runId, (after) => {
      isAtHead ||= isSameHead(after, stored)
    })
    // Rows after the head were written while the chain was read; they are under the key as well.
    const problem = failure ?? (isAtHead ? undefined : walk.endsAt(stored))
    if (problem) this.#add(runId, problem)
    return stored
  }

  async #follow(
    walk: ChainWalk,
    runId: string,
    onHead?: (after: AuditHead) => void,
  ): Promise<ChainFailure | undefined> {
    for await (const rows of this.#pages(runId)) {
      const failure = walk.follow(rows, (_, after) => onHead?.(after))
      if (failure) return failure
    }
    return undefined
  }

  async *#pages(runId: string): AsyncGenerator<AuditRow[]> {
    for (let after: string | undefined; ; ) {
      const { items, next } = await this.#source.readAudit({ runId, limit: PAGE, ...present({ after }) })
      this.records += items.length
      if (items.length > 0) yield items
      if (next === undefined) return
      after = next
    }
  }

  #add(chain: string, failure: ChainFailure): void {
    this.#problemCount += 1
    if (this.#problems.length < AUDIT_LIMITS.maxProblems) this.#problems.push({ chain, ...failure })
  }
}
