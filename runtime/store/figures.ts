import type * as z from 'zod'
import type { RunState } from '../../contracts/api.ts'
import type { ApprovalKinds } from './columns.ts'
import type { Lane } from './queue.ts'

type GateKind = z.infer<typeof ApprovalKinds>

/** Requests to people that are still open, of one kind. */
export interface OpenGates {
  readonly kind: GateKind
  readonly count: number
  readonly oldestAt: string
  /** Requests that expired before `FiguresQuery.expiredBefore` and are still open. */
  readonly overdue: number
}

export interface QueuedRuns {
  readonly lane: Lane
  readonly count: number
  /** The longest wait of these runs. */
  readonly oldestMs: number
}

/** Counts of the store for operators. */
export interface StoreFigures {
  /** A state without runs is absent. */
  readonly runs: ReadonlyMap<RunState, number>
  readonly queue: readonly QueuedRuns[]
  readonly gates: readonly OpenGates[]
  /** Unreleased sandboxes of runs that ended before `endedBefore`. */
  readonly unreleased: number
}

export interface FiguresQuery {
  readonly expiredBefore: string
  readonly endedBefore: string
}

/** A run that continues only after a person acts. */
export interface WaitingForPerson {
  readonly runId: string
  readonly owner: string
  readonly for: GateKind | 'resume'
  readonly since: string
}

/** A process that shares the store. Times are of the clock of the store. */
export interface ReplicaRow {
  readonly id: string
  readonly name: string
  readonly version: string
  readonly startedAt: string
  readonly seenAt: string
  readonly silentMs: number
}

export interface ReplicaStore {
  /** Stores a heartbeat. The first one is the start of the replica. */
  noteReplica(replica: Pick<ReplicaRow, 'id' | 'name' | 'version'>): Promise<void>
  removeReplica(id: string): Promise<void>
  /** Includes replicas whose heartbeats have stopped in the last hour. */
  listReplicas(): Promise<ReplicaRow[]>
}

export interface FigureReads extends ReplicaStore {
  readFigures(query: FiguresQuery): Promise<StoreFigures>
  /** The longest waiting run first. */
  listWaitingForPerson(limit: number): Promise<WaitingForPerson[]>
}
