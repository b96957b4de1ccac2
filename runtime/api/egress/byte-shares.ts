import type { SettledShares, ShareDecision, ShareRequest } from '../../../contracts/egress-budgets.ts'
import type { Store, Transaction } from '../../store/store.ts'
import { BYTES_PER_RUN } from './byte-budgets.ts'

export interface ByteSharesOptions {
  readonly store: Pick<Store, 'transaction'>
  /** @default the limit of a run */
  readonly limit?: number
  /** @default 256 MiB */
  readonly leastShare?: number
}

/** A replica that is killed keeps its share, so a share is a small part of the rest. */
const PARTS = 64
const LEAST_SHARE = 256 * 1024 ** 2
const NOTHING: ShareDecision = { granted: 0, isLast: true }

/**
 * The bytes that the sandboxes of a run may send and receive through all replicas of the proxy. Each replica takes a share
 * before it lets the bytes pass. The shares are in the store, so that two processes of the API never grant the same bytes.
 */
export class ByteShares {
  readonly #store: ByteSharesOptions['store']
  readonly #limit: number
  readonly #leastShare: number

  constructor({ store, limit = BYTES_PER_RUN, leastShare = LEAST_SHARE }: ByteSharesOptions) {
    this.#store = store
    this.#limit = limit
    this.#leastShare = leastShare
  }

  take({ runId, generation, missing }: ShareRequest): Promise<ShareDecision> {
    return this.#store.transaction(async (tx) => {
      const run = await tx.readRun(runId)
      if (!run || run.endedAt !== undefined || run.generation !== generation) return NOTHING
      const taken = await tx.readTakenBytes(runId)
      const rest = Math.max(0, this.#limit - taken)
      const wanted = missing + Math.max(this.#leastShare, Math.floor(rest / PARTS))
      const granted = Math.min(rest, wanted)
      if (granted > 0) await tx.writeTakenBytes(runId, taken + granted)
      return { granted, isLast: rest <= wanted }
    })
  }

  /** Other replicas can take the unused bytes again. The row of the run must be locked. */
  async settle(tx: Transaction, runId: string, { unused }: SettledShares): Promise<void> {
    const taken = await tx.readTakenBytes(runId)
    await tx.writeTakenBytes(runId, Math.max(0, taken - unused))
  }
}
