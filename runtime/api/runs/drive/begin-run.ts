import { setImmediate as nextTurn } from 'node:timers/promises'
import type { RunRow, Transaction, TurnRow } from '../../../store/store.ts'
import type { RunDeps } from '../deps.ts'
import { whileHeld } from '../held-run.ts'
import { after, selectedEvent } from '../launch/launch.ts'
import type { LaunchedSandbox } from '../launch/launched-sandbox.ts'
import { transition } from '../machine/transition.ts'
import { egressDigestOf } from '../use/egress-digest.ts'

/**
 * Records the start of a run and its first turn in one commit. The turn is sent before the commit, in parallel with the
 * request for the sandbox's events, because an embedded store commits on this thread and would delay both.
 */
export async function beginRun(
  { store, clock, networks }: RunDeps,
  run: RunRow,
  { generation, selected, sandbox, turn, sendTurn }: LaunchedSandbox & { readonly sendTurn: () => void },
): Promise<void> {
  await nextTurn()
  sendTurn()
  await nextTurn()
  let attempts = 0
  await whileHeld(store, run, async (tx, current) => {
    attempts += 1
    // An earlier attempt was committed, and its answer was lost.
    if (attempts > 1 && current.state !== 'starting') return
    const isFirst = current.startedAt === undefined
    if (isFirst) await tx.changeRun(run.id, { startedAt: clock().toISOString() })
    if (selected) await recordSelected(tx, run, { selected, sandbox })
    const resumed = { generation, ...egressChange(networks, current) }
    const event = isFirst
      ? ({ type: 'run.started', data: { generation } } as const)
      : ({ type: 'run.resumed', data: resumed } as const)
    await tx.appendEvents(run.id, [{ event }])
    await take(tx, current, { turn, at: clock().toISOString() })
  })
}

/** Whether the commands may reach something else than at the checkpoint. */
function egressChange(networks: RunDeps['networks'], run: RunRow): { readonly isEgressChanged?: true } {
  const saved = run.checkpoint?.egressDigest
  return saved === undefined || saved === egressDigestOf(networks, run) ? {} : { isEgressChanged: true }
}

/** Records how the sandbox isolates commands. */
export async function recordSelected(
  tx: Transaction,
  { id }: RunRow,
  { selected, sandbox }: Required<Pick<LaunchedSandbox, 'selected' | 'sandbox'>>,
): Promise<void> {
  await tx.changeRun(id, { sandbox: { name: sandbox.podName, isolation: selected } })
  await tx.appendEvents(id, [{ event: selectedEvent(selected) }])
}

/**
 * The next queued turn, marked as sent, with the preface if there is one; the run's state says whether there is a turn. The
 * driver asks between turns, so a turn that is sent already is one whose commit got no answer.
 */
export async function takeTurn(
  tx: Transaction,
  run: RunRow,
  { at, preface }: { readonly at: string; readonly preface: string | undefined },
): Promise<TurnRow | undefined> {
  // A run that is being suspended takes no turn.
  if (!TAKES_TURNS.has(run.state)) return undefined
  const [sent] = await tx.listTurns(run.id, ['sent'])
  if (sent) return sent
  const [queued] = await tx.listTurns(run.id, ['queued'])
  const turn = queued && after(preface, queued)
  await take(tx, run, { turn, at })
  return turn
}

const TAKES_TURNS: ReadonlySet<RunRow['state']> = new Set(['starting', 'running', 'waiting'])

type Taken = { readonly turn: TurnRow | undefined; readonly at: string }

async function take(tx: Transaction, run: RunRow, { turn, at }: Taken): Promise<void> {
  if (turn) {
    await tx.changeTurn(turn.id, 'sent', turn.sentPrompt)
    await transition(tx, run, { event: { kind: 'turn_taken' } })
    return
  }
  if (run.state === 'waiting' && run.waiting?.for === 'turn') return
  const facts = run.kind === 'agent' ? ({ waiting: { for: 'turn', since: at } } as const) : {}
  await transition(tx, run, { event: { kind: 'no_turn' }, facts })
}
