import type { Backend } from './backends.ts'
import { type Fault, planFaults } from './faults.ts'
import { createRandom, type Random } from './random.ts'

/** The actions of the agent of a run, and of its users. */
export const SHAPES = [
  'plain',
  'chatty',
  'approval',
  'question',
  'interactive',
  'suspend',
  'slow',
  'sandbox',
] as const
export type Shape = (typeof SHAPES)[number]

/** How one client reads the events of a run: after so many events of a connection it disconnects. */
export type ReaderPlan = { readonly cutAfter: readonly number[]; readonly seed: number }

export type RunPlan = {
  readonly index: number
  readonly shape: Shape
  readonly workspace: 'path' | 'empty'
  readonly startAfterMs: number
  /** How often each request of a person is sent at once. */
  readonly copies: number
  /** Whether the copies are the same request with one idempotency key, or separate decisions. */
  readonly sharesKey: boolean
  /** With separate decisions: half of them say the opposite. */
  readonly disagrees: boolean
  readonly decision: 'approved' | 'denied'
  readonly decideAfterMs: number
  /** A person suspends the run when it waits. */
  readonly isSuspendedByPerson: boolean
  readonly cancelAfterMs?: number
  /** No person decides: the run waits at the end of the round. */
  readonly isLeft: boolean
  readonly readers: readonly ReaderPlan[]
  readonly seed: number
}

export type RoundPlan = {
  readonly seed: number
  readonly backend: Backend
  /** Seconds after which a run that waits is suspended. */
  readonly suspendAfterSeconds: number
  readonly warm: number
  /** How far the clock of the last replica is wrong. */
  readonly skewMs: number
  readonly runs: readonly RunPlan[]
  readonly faults: readonly Fault[]
}

export type RoundRequest = {
  readonly seed: number
  readonly backend: Backend
  readonly runs: number
  /** @default true */
  readonly hasFaults?: boolean
}

/** The whole schedule of one round. The same request returns the same plan. */
export function planRound({ seed, backend, runs, hasFaults = true }: RoundRequest): RoundPlan {
  const random = createRandom(seed).fork(backend)
  const settings = random.fork('settings')
  return {
    seed,
    backend,
    suspendAfterSeconds: settings.pick([1, 2, 60]),
    warm: settings.int(1, 3),
    skewMs: backend === 'two-replicas' ? settings.pick([0, 0, -20_000, 20_000]) : 0,
    runs: Array.from({ length: runs }, (_, index) => planRun(random.fork(`run ${index}`), index)),
    faults: hasFaults ? planFaults(random.fork('faults'), backend) : [],
  }
}

const WAITING: ReadonlySet<Shape> = new Set(['approval', 'question', 'suspend'])

function planRun(random: Random, index: number): RunPlan {
  const shape = random.pick(SHAPES)
  const isLeft = WAITING.has(shape) && random.chance(0.1)
  const copies = random.int(2, 3)
  return {
    index,
    shape,
    workspace: random.chance(0.75) ? 'path' : 'empty',
    startAfterMs: random.int(0, 4_000),
    copies,
    sharesKey: random.chance(0.4),
    disagrees: random.chance(0.3),
    decision: random.chance(0.75) ? 'approved' : 'denied',
    decideAfterMs: random.pick([0, 0, 50, 500, 2_500, 5_000]),
    isSuspendedByPerson: shape === 'suspend',
    ...(random.chance(0.1) && { cancelAfterMs: random.int(0, 8_000) }),
    isLeft,
    readers: Array.from({ length: 2 }, (_, reader) => planReader(random.fork(`reader ${reader}`))),
    seed: random.int(0, 0x7fff_ffff),
  }
}

function planReader(random: Random): ReaderPlan {
  const cutAfter = Array.from({ length: random.int(0, 4) }, () => random.int(0, 25))
  return { cutAfter, seed: random.int(0, 0x7fff_ffff) }
}
