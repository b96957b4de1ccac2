import { Counter, Histogram, Registry } from 'prom-client'
import { ErrorCode } from '../../../contracts/errors.ts'

/** A request or a commit is a matter of milliseconds. */
const SHORT = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
/** A warm sandbox takes less than a second, a cold one on a new node takes minutes. */
const START = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300]
const TURN = [1, 5, 15, 30, 60, 180, 600, 1_800, 3_600, 10_800]
/** From a person who looks on to a run that waits for a weekend. */
const WAIT = [5, 30, 120, 600, 1_800, 7_200, 28_800, 86_400, 259_200, 604_800]

const LEASES = ['process', 'store'] as const
const RETRIES = ['store', 'launch', 'run'] as const
const CUTS = ['reader_closed', 'service_ended', 'refused', 'sandbox_broken'] as const
export type StreamCut = (typeof CUTS)[number]

/**
 * What this process has measured since its start. No label names a run, an owner or anything that a caller can choose, so
 * the number of series is bounded.
 */
export function createProcessMetrics() {
  const registry = new Registry()
  return { registry, ...histogramsOf(registry), ...countersOf(registry) }
}

export type ProcessMetrics = ReturnType<typeof createProcessMetrics>

type Shape<T extends string> = { readonly buckets: number[]; readonly labels: readonly T[] }

function histogramsOf(registry: Registry) {
  const histogram = <T extends string>(name: string, help: string, { buckets, labels }: Shape<T>) =>
    new Histogram({
      ...{ name: `agentweaver_${name}_seconds`, help, buckets },
      ...{ labelNames: labels, registers: [registry] },
    })
  return {
    httpRequests: histogram('http_request_duration', 'Time from a request to the start of its response.', {
      buckets: SHORT,
      labels: ['method', 'route', 'status'],
    }),
    launches: histogram(
      'launch_duration',
      'Time from the start of a launch until the run works in its sandbox.',
      { buckets: START, labels: ['launch'] },
    ),
    binds: histogram('bind_duration', 'Time from the request for a sandbox until it is bound to the run.', {
      buckets: START,
      labels: ['launch'],
    }),
    turns: histogram('turn_duration', 'Time of a turn, with its waits for people.', {
      buckets: TURN,
      labels: ['state'],
    }),
    approvalWaits: histogram('approval_wait', 'Time from a request to a person until its decision.', {
      buckets: WAIT,
      labels: ['kind', 'decision'],
    }),
    commits: histogram(
      'store_commit_duration',
      'Time of a transaction of the store, until its durable commit.',
      { buckets: SHORT, labels: ['result'] },
    ),
  }
}

function countersOf(registry: Registry) {
  // `rate()` compares exported values, so it misses the first increment of a counter that was never exported as 0.
  const counter = <V extends string>(name: string, help: string, [label, values]: [string, readonly V[]]) => {
    const registers = [registry]
    const made = new Counter({ name: `agentweaver_${name}_total`, help, labelNames: [label], registers })
    for (const value of values) made.inc({ [label]: value }, 0)
    return (value: V) => made.inc({ [label]: value })
  }
  const takeovers = new Counter({
    name: 'agentweaver_takeovers_total',
    help: 'Runs of other replicas that this replica took over.',
    registers: [registry],
  })
  const failures = 'Runs that this process ended as failed, by failure code.'
  const losses =
    'Leases that this process lost. Without the lease of the process, other replicas drive its runs.'
  const retries =
    'Work that failed and is tried again: on the store, on a launch that found no room, on a run that lost its sandbox.'
  const cuts = 'Event streams that ended before they were complete, or were refused.'
  return {
    tookOver: () => takeovers.inc(),
    runFailed: counter('run_failures', failures, ['code', ErrorCode.options]),
    lostLease: counter('lease_losses', losses, ['lease', LEASES]),
    retried: counter('retries', retries, ['operation', RETRIES]),
    cutStream: counter('stream_cuts', cuts, ['reason', CUTS]),
  }
}
