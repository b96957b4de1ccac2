import type { Diagnostics, NeedsPerson } from '../../../../contracts/diagnostics.ts'
import { SandboxKind } from '../../../../contracts/names.ts'
import { deadline } from '../../../kit/deadline.ts'
import { messageOf, SandboxError } from '../../../kit/errors.ts'
import { present } from '../../../kit/present.ts'
import type { WaitingForPerson } from '../../../store/figures.ts'
import { readsWholeAudit } from '../../people/rights.ts'
import type { RunDeps } from '../deps.ts'
import { underWayQuery } from '../queue/pick-next.ts'
import { estimate } from '../queue/queue-view.ts'
import type { Presence } from '../replicas/presence.ts'
import type { Caller } from '../service.ts'
import { type Operations, queueOf, readOperations } from './operations.ts'

const MAX_LISTED = 20
/** The person who reads this waits for it, also while the store does not respond. */
const STORE_TIMEOUT_MS = 3_000

type DiagnosticDeps = Pick<
  RunDeps,
  'store' | 'provider' | 'limits' | 'restrictions' | 'clock' | 'holder' | 'redactText'
> & { readonly presence: Presence }

type Work = NonNullable<Diagnostics['work']>

/** The state of the deployment. What the store cannot tell is left out, because it is read when something is broken. */
export async function readDiagnostics(deps: DiagnosticDeps, caller: Caller): Promise<Diagnostics> {
  if (!readsWholeAudit(caller))
    throw new SandboxError(
      'forbidden',
      `The role ${caller.role} does not permit this. Operators and auditors read the diagnostics of the deployment.`,
    )
  const { provider, clock, presence } = deps
  const store = await examineStore(deps)
  const [replicas, work] = store.usable
    ? await Promise.all([presence.list(), readWork(deps)])
    : [[presence.alone()], undefined]
  return {
    at: clock().toISOString(),
    store,
    checks: [...(provider.checks?.() ?? [])],
    replicas,
    pools: [...provider.pools()],
    ...present({ work }),
  }
}

async function examineStore({ store, redactText }: DiagnosticDeps): Promise<Diagnostics['store']> {
  const { engine } = store
  const before = performance.now()
  try {
    await deadline('a write to the store', STORE_TIMEOUT_MS, store.ping())
    return { engine, usable: true, latencyMs: Math.round((performance.now() - before) * 10) / 10 }
  } catch (error) {
    return { engine, usable: false, problem: redactText(messageOf(error)) }
  }
}

async function readWork(deps: DiagnosticDeps): Promise<Work> {
  const [operations, waiting] = await Promise.all([
    readOperations(deps),
    deps.store.listWaitingForPerson(MAX_LISTED),
  ])
  const { figures, overdue } = operations
  return {
    runs: Object.fromEntries(figures.runs),
    queue: await Promise.all(SandboxKind.options.map((kind) => queueWithNext(deps, operations, kind))),
    gates: figures.gates.map(({ kind, count, oldestAt }) => ({ kind, open: count, oldestAt })),
    overdue,
    needPerson: waiting.map(needsPerson),
  }
}

async function queueWithNext(
  deps: DiagnosticDeps,
  { figures }: Operations,
  kind: SandboxKind,
): Promise<Work['queue'][number]> {
  const { waiting, oldestMs } = queueOf(figures, kind)
  const next = waiting > 0 ? await nextIn(deps, kind) : undefined
  return { kind, waiting, oldestWaitSeconds: Math.round(oldestMs / 1_000), ...present({ next }) }
}

async function nextIn(deps: DiagnosticDeps, lane: SandboxKind): Promise<Work['queue'][number]['next']> {
  const view = await deps.store.viewQueue({ lane, underWay: underWayQuery(deps) })
  const [runId] = [...view.positions].find(([, position]) => position === 1) ?? []
  const run = runId === undefined ? undefined : await deps.store.readRun(runId)
  return run && { runId: run.id, owner: run.owner, ...estimate(view, 1) }
}

const needsPerson = ({ runId, owner, for: kind, since }: WaitingForPerson): NeedsPerson => {
  const waitingFor = kind === 'question' || kind === 'resume' ? kind : 'approval'
  return { runId, owner, waitingFor, since }
}
