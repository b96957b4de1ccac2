import type { RunState } from '../../contracts/api.ts'
import type { SandboxKind } from '../../contracts/names.ts'
import type { RestrictionRow } from './service-rows.ts'

/** States of runs that wait in the queue. No process drives them. */
export const QUEUED_STATES = ['queued', 'pending_capacity'] as const satisfies RunState[]

/**
 * A separate line of the queue. Each kind of sandbox has one, because each kind has its own pool in a cluster. The runs of
 * a service that a command started have separate lines, because no other service may start them.
 */
export type Lane = SandboxKind | `${SandboxKind}/temporary`

export const laneOf = ({
  kind,
  endsWithService,
}: {
  readonly kind: SandboxKind
  readonly endsWithService: boolean
}): Lane => (endsWithService ? `${kind}/temporary` : kind)

/** The oldest waiting run of one owner in a lane. */
export interface QueueHead {
  readonly runId: string
  readonly lane: Lane
  readonly owner: string
  /** When the run became the first of its owner. Owners with the same number of runs take turns by it. */
  readonly turnMs: number
}

/** Number of runs that have a sandbox or are about to get one, by owner. */
export type RunsByOwner = ReadonlyMap<string, number>

/** Runs that may not start. */
export interface Frozen {
  readonly all: boolean
  readonly owners: readonly string[]
  readonly runIds: readonly string[]
}

export interface OverdueQuery {
  readonly afterMs: number
  readonly limit: number
  /** Leaves out runs that may not start, unless they are to end. @default none */
  readonly without?: Frozen
}

export interface HeadQuery {
  readonly lanes: readonly OpenLane[]
  /** Maximum number of runs per lane. */
  readonly limit: number
  /** Leaves out owners and runs, which may not start. @default none */
  readonly without?: Pick<Frozen, 'owners' | 'runIds'>
}

/** A lane from which runs are picked. */
export interface OpenLane {
  readonly lane: Lane
  /** The cluster has reported room: runs may try, although an earlier run of the lane found none. */
  readonly hasRoom: boolean
}

export interface UnderWayQuery {
  readonly states: readonly RunState[]
  /** Only runs that this process drives. */
  readonly holder?: string
}

/** The waiting runs of one lane. */
export interface QueueView {
  /** Position of each run that waits. The next run has 1. */
  readonly positions: ReadonlyMap<string, number>
  /** Runs that were started recently after they had waited for a place. */
  readonly starts: { readonly count: number; readonly firstMs: number }
  /** The clock of the store. */
  readonly nowMs: number
}

/** Changes of the queue in a transaction. The queue follows the states of the runs. */
export interface QueueTransaction {
  /** Locks a run like `readRun`, but returns false if another transaction has locked it, or if there is no such run. */
  lockRunIfFree(id: string): Promise<boolean>
  /**
   * Counts runs by owner. Until the transaction ends, no other transaction can count runs or change the queue: a caller that
   * starts one more run by this count cannot exceed a limit.
   */
  countRunsUnderWay(query: UnderWayQuery): Promise<RunsByOwner>
  /**
   * The oldest waiting run of each owner in each lane, oldest first. While a run of a lane waits because it found no room, and
   * no room was reported since, only runs whose next attempt is due.
   */
  listQueueHeads(query: HeadQuery): Promise<QueueHead[]>
  /** A run that waits found no room: it waits at least `pauseMs`, and tries again after `retryMs` in any case. */
  waitForRoom(id: string, wait: { readonly pauseMs: number; readonly retryMs: number }): Promise<void>
  /** How often the run found no room since it was queued. */
  readAttempts(id: string): Promise<number>
  /**
   * Queues runs that wait by their state but have no place in the queue, and that no living process holds: a replica of an
   * earlier release queued them. Returns their ids.
   */
  queueLeftBehind(limit: number): Promise<string[]>
  /** Makes a run that waits in the queue overdue, so that the next sweep ends it. */
  expireInQueue(id: string): Promise<void>
  /** Starts the deadlines of the waiting runs of a scope again. */
  restartQueueDeadlines(scope: RestrictionRow['scope']): Promise<void>
}

export interface QueueReads {
  /** Runs that wait for their first sandbox for longer than `afterMs`, the longest overdue first. */
  listOverdueInQueue(query: OverdueQuery): Promise<string[]>
  /** Positions of the waiting runs of a lane, and the pace of the lane. */
  viewQueue(query: { readonly lane: Lane; readonly underWay: UnderWayQuery }): Promise<QueueView>
}
