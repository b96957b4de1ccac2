import * as z from 'zod'
import { RunState, WaitingFor } from './api.ts'
import { SandboxKind } from './names.ts'

const Count = z.int().nonnegative()
const When = z.iso.datetime()

/** A process of the API. On a laptop there is one. */
const Replica = z.object({
  /** Name of its host: on a cluster, the name of the pod. */
  name: z.string(),
  version: z.string(),
  startedAt: When,
  lastHeartbeatAt: When,
  /** False if the heartbeat is older than a few intervals: the process is gone, or cannot write to the store. */
  isAlive: z.boolean(),
  /** Whether this replica returned these diagnostics. */
  isThis: z.boolean(),
})
export type Replica = z.infer<typeof Replica>

const Pool = z.object({
  kind: SandboxKind.optional(),
  name: z.string(),
  /** Sandboxes that wait for a run. */
  ready: Count,
  /** Sandboxes of the pool that do not serve yet. */
  starting: Count,
  /** Sandboxes that runs use. */
  claimed: Count,
})
export type Pool = z.infer<typeof Pool>

const QueueOfKind = z.object({
  kind: SandboxKind,
  waiting: Count,
  oldestWaitSeconds: z.number().nonnegative(),
  /** The run that starts next, unless a limit of its owner prevents it. */
  next: z.object({ runId: z.string(), owner: z.string(), estimatedStart: When.optional() }).optional(),
})

const Gates = z.object({
  kind: z.enum(['shell', 'tool', 'question']),
  open: Count,
  oldestAt: When,
})

/** Work that a replica should have done: `run_takeover` from the end of a lease, the others for at least a minute. Each should be 0. */
const Overdue = z.object({
  approval_expiry: Count,
  sandbox_release: Count,
  queue_deadline: Count,
  run_takeover: Count,
})
export type Overdue = z.infer<typeof Overdue>

const NeedsPerson = z.object({
  runId: z.string(),
  owner: z.string(),
  waitingFor: WaitingFor,
  since: When,
})
export type NeedsPerson = z.infer<typeof NeedsPerson>

/** The state of the deployment, for operators and auditors. */
export const Diagnostics = z.object({
  at: When,
  store: z.object({
    engine: z.enum(['sqlite', 'postgres']),
    /** Whether the store can be written and read. */
    usable: z.boolean(),
    /** Time of one write. Absent if it failed. */
    latencyMs: z.number().nonnegative().optional(),
    problem: z.string().optional(),
  }),
  /** Connections to the cluster. Empty on a laptop. */
  checks: z.array(z.object({ name: z.string(), ok: z.boolean(), detail: z.string() })),
  replicas: z.array(Replica),
  pools: z.array(Pool),
  /** What the store has of runs. Absent while it cannot be used. */
  work: z
    .object({
      /** States without a run are absent. */
      runs: z.partialRecord(RunState, Count),
      queue: z.array(QueueOfKind),
      gates: z.array(Gates),
      overdue: Overdue,
      /** Runs that continue only after a person acts, the longest wait first, at most 20. */
      needPerson: z.array(NeedsPerson),
    })
    .optional(),
})
export type Diagnostics = z.infer<typeof Diagnostics>
