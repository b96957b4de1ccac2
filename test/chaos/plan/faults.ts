import type { RunEventType } from '../../../contracts/events.ts'
import type { Backend } from './backends.ts'
import type { Random } from './random.ts'

/** The processes of the product that a fault can strike. */
export type ProcessKind = 'api' | 'agent-host' | 'runner' | 'command'

export type Trigger =
  | { readonly kind: 'time'; readonly afterMs: number }
  /** After the n-th event of this type in the round, of any run. */
  | { readonly kind: 'step'; readonly type: RunEventType; readonly nth: number; readonly delayMs: number }

export type Action =
  | { readonly kind: 'kill'; readonly target: ProcessKind; readonly restartAfterMs: number }
  | { readonly kind: 'stop'; readonly target: ProcessKind; readonly forMs: number }
  /** SIGTERM to the API, and a new process after it has ended. */
  | { readonly kind: 'restart'; readonly restartAfterMs: number }
  | { readonly kind: 'refuse-database'; readonly forMs: number }
  /** The open connections stay open, but no data passes. */
  | { readonly kind: 'silence-database' }
  | { readonly kind: 'slow-database'; readonly delayMs: number; readonly forMs: number }
  | { readonly kind: 'terminate-connections' }
  /** SIGKILL to the API when it commits, before or after the database has received the commit. */
  | {
      readonly kind: 'kill-at-commit'
      readonly nth: number
      readonly when: 'before' | 'after'
      readonly restartAfterMs: number
    }
  | { readonly kind: 'fill-disk'; readonly forMs: number }
  /** Another process keeps SQLite's write lock. */
  | { readonly kind: 'lock-store'; readonly forMs: number }
  /** Every connection between the API and the sandboxes is reset. */
  | { readonly kind: 'reset-sandbox-connections' }
  /** Every watch of the API server of Kubernetes is reset. */
  | { readonly kind: 'reset-watches' }
  | { readonly kind: 'delete-pod' }
  /** All clients lose their streams at the same time. */
  | { readonly kind: 'cut-streams' }

export type Fault = {
  readonly trigger: Trigger
  readonly action: Action
  /** Chooses the process among several of its kind. */
  readonly choice: number
}

const TARGETS: readonly ProcessKind[] = ['api', 'agent-host', 'agent-host', 'runner', 'command']

type Maker = (random: Random) => Action

const COMMON: readonly Maker[] = [
  (random) => ({ kind: 'kill', target: random.pick(TARGETS), restartAfterMs: random.int(0, 2_000) }),
  (random) => ({ kind: 'kill', target: random.pick(TARGETS), restartAfterMs: random.int(0, 2_000) }),
  (random) => ({ kind: 'stop', target: random.pick(TARGETS), forMs: random.int(200, 6_000) }),
  (random) => ({ kind: 'restart', restartAfterMs: random.int(0, 1_000) }),
  () => ({ kind: 'cut-streams' }),
]

const ON_POSTGRES: readonly Maker[] = [
  (random) => ({ kind: 'refuse-database', forMs: random.int(300, 8_000) }),
  () => ({ kind: 'silence-database' }),
  (random) => ({ kind: 'slow-database', delayMs: random.int(20, 400), forMs: random.int(500, 5_000) }),
  () => ({ kind: 'terminate-connections' }),
  killAtCommit,
  killAtCommit,
]

function killAtCommit(random: Random): Action {
  const when = random.pick(['before', 'after'] as const)
  return { kind: 'kill-at-commit', nth: random.int(1, 120), when, restartAfterMs: random.int(0, 2_000) }
}

const MAKERS: Readonly<Record<Backend, readonly Maker[]>> = {
  sqlite: [
    ...COMMON,
    (random) => ({ kind: 'fill-disk', forMs: random.int(300, 8_000) }),
    (random) => ({ kind: 'lock-store', forMs: random.int(300, 8_000) }),
  ],
  postgres: [...COMMON, ...ON_POSTGRES],
  'two-replicas': [
    ...COMMON,
    ...ON_POSTGRES,
    () => ({ kind: 'reset-sandbox-connections' }),
    () => ({ kind: 'reset-watches' }),
    () => ({ kind: 'delete-pod' }),
    // Longer than the lease of a process, so that the other one takes its runs over.
    (random) => ({ kind: 'stop', target: 'api', forMs: random.int(13_000, 17_000) }),
  ],
}

const STEP_TYPES: readonly RunEventType[] = [
  'run.queued',
  'sandbox.execution_pod.bound',
  'run.started',
  'turn.started',
  'tool.call',
  'shell.approval_required',
  'shell.approved',
  'agent.question_asked',
  'agent.question_answered',
  'command.output',
  'command.exited',
  'tool.result',
  'turn.ended',
  'run.suspended',
  'run.resumed',
  'run.interrupted',
  'run.outcome',
  'sandbox.execution_pod.released',
]

export function planFaults(random: Random, backend: Backend): Fault[] {
  const count = random.int(2, 7)
  return Array.from({ length: count }, (_, index) => {
    const own = random.fork(`fault ${index}`)
    return { trigger: planTrigger(own), action: own.pick(MAKERS[backend])(own), choice: own.next() }
  })
}

function planTrigger(random: Random): Trigger {
  if (random.chance(0.4)) return { kind: 'time', afterMs: random.int(500, 12_000) }
  const delayMs = random.pick([0, 0, 0, random.int(1, 60)])
  return { kind: 'step', type: random.pick(STEP_TYPES), nth: random.int(1, 6), delayMs }
}
