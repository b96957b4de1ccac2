import { randomUUID } from 'node:crypto'
import { FINAL_STATES } from '../../contracts/api.ts'
import { API_ROUTES } from '../../contracts/routes.ts'
import { delay } from '../../runtime/kit/deadline.ts'
import { auditRound } from './audit/audit.ts'
import type { Finding, RunFacts } from './audit/facts.ts'
import { type CollectParts, collectFacts, collectServed, type OpenRun } from './collect.ts'
import { type FaultLine, startFaults } from './faults.ts'
import { createHttp, type Http } from './people/http.ts'
import { type Person, startPerson } from './people/person.ts'
import type { RoundPlan } from './plan/plan.ts'
import { type Ground, startWorld, type World } from './world/world.ts'

export type RoundResult = {
  readonly plan: RoundPlan
  readonly findings: readonly Finding[]
  readonly faults: readonly FaultLine[]
  readonly endings: Readonly<Record<string, number>>
  readonly events: number
  readonly cuts: number
  readonly ms: number
  /** Only with findings. */
  readonly logs?: string
  readonly stories?: Readonly<Record<string, string>>
}

/** Runs that have not settled are stranded if no run has made progress for this long after the last fault. */
const SETTLE_MS = 150_000
/** A round ends in any case after this time, also if a run goes on for ever. */
const MAX_SETTLE_MS = 1_200_000
/** Readers get the last events within this time. */
const READ_MS = 30_000
/** A service that stops waits for its runs, which have ended. */
const STOP_MS = 30_000
const POLL_MS = 100

/** Executes a plan, audits it, and removes everything that it created. */
export async function runRound(ground: Ground, plan: RoundPlan): Promise<RoundResult> {
  const startedAt = performance.now()
  const world = await startWorld(ground, plan)
  const http = createHttp(world.apiKey)
  const stop = new AbortController()
  try {
    const { people, faults } = await play(world, { http, plan, signal: stop.signal })
    const open = await openRuns(world, people)
    await endWaiting(world, http, people)
    await until(() => people.every((person) => person.readers.every((reader) => reader.isDone())), READ_MS)
    const ids = people.flatMap((person) => person.id() ?? [])
    const served = await collectServed(world, http, ids)
    stop.abort()
    await Promise.all(people.map(({ finished }) => finished))
    await stopServices(world)
    const facts = await collectFacts({ world, plan, people, served, open })
    const findings = auditRound(facts)
    return {
      plan,
      findings,
      faults: faults.lines,
      endings: count(facts.runs.map(({ state, failureCode }) => failureCode ?? state)),
      events: facts.runs.reduce((sum, { events }) => sum + events.length, 0),
      cuts: facts.runs.reduce((sum, { readers }) => sum + readers.flat().length - readers.length, 0),
      ms: Math.round(performance.now() - startedAt),
      ...(findings.length > 0 && { logs: world.logs(), stories: storiesOf(facts.runs, findings) }),
    }
  } finally {
    stop.abort()
    await world.close()
    await http.close()
  }
}

type Playing = { readonly http: Http; readonly plan: RoundPlan; readonly signal: AbortSignal }

/** Drives runs, people and faults until everything has settled. */
async function play(world: World, { http, plan, signal }: Playing) {
  const people: Person[] = []
  const isOver = () => people.length > 0 && people.every(hasSettled)
  const faults = startFaults(world, plan.faults, { people, isOver })
  for (const run of plan.runs)
    people.push(startPerson({ world, http, plan: run, onEvent: faults.onEvent, signal }))
  await faults.finished
  await Promise.all(world.proxies.map((proxy) => proxy.heal()))
  await untilSettled(people)
  return { people, faults }
}

/** On a machine that is busy with other work, a round takes long, but its runs still make progress. */
async function untilSettled(people: readonly Person[]): Promise<void> {
  const progress = () =>
    JSON.stringify(people.map((person) => [person.last()?.state, person.last()?.lastSequence]))
  for (const end = performance.now() + MAX_SETTLE_MS; performance.now() < end; ) {
    const before = progress()
    await until(() => people.every(hasSettled) || progress() !== before, SETTLE_MS)
    if (people.every(hasSettled) || progress() === before) return
  }
}

const isFinal = (state: string | undefined): boolean =>
  state !== undefined && (FINAL_STATES as readonly string[]).includes(state)

const hasSettled = (person: Person): boolean => isFinal(person.last()?.state) || person.isLeftWaiting()

/** The runs that have not ended, before the people end them. */
async function openRuns(world: World, people: readonly Person[]): Promise<CollectParts['open']> {
  const open: [string, OpenRun][] = []
  for (const person of people) {
    const [id, last] = [person.id(), person.last()]
    if (id === undefined || last === undefined || isFinal(last.state)) continue
    const rows = await world.query((query) =>
      query(`select request_id from approvals where run_id = '${id}' and state = 'pending'`),
    )
    const { state, waiting } = last
    open.push([id, { state, openRequests: rows.length, ...(waiting && { waitingFor: waiting.for }) }])
  }
  return new Map(open)
}

/** Runs that were left waiting are cancelled, so that nothing of them may be left. */
async function endWaiting(world: World, http: Http, people: readonly Person[]): Promise<void> {
  const open = people.filter((person) => person.id() !== undefined && !isFinal(person.last()?.state))
  await Promise.all(open.map((person) => cancel(world, http, `${API_ROUTES.runs}/${person.id()}/cancel`)))
  // Another replica may have to take the run over first.
  await until(() => open.every((person) => isFinal(person.last()?.state)), SETTLE_MS)
}

/** Repeats the request until a replica accepts it: one that was started again a moment ago may not serve yet. */
async function cancel(world: World, http: Http, path: string): Promise<void> {
  const request = { method: 'POST', path, key: randomUUID() } as const
  for (const end = performance.now() + SETTLE_MS; performance.now() < end; await delay(POLL_MS))
    for (const replica of world.replicas) {
      const answer = await http.ask(replica, request)
      if (answer !== undefined && answer.status < 500) return
    }
}

async function stopServices(world: World): Promise<void> {
  const ends = await Promise.all(world.replicas.map((replica) => replica.close()))
  for (const [index, { code, ms }] of ends.entries()) {
    const name = world.replicas[index]?.name
    if (code !== 0) world.problems.push(`${name} stopped with exit code ${code}`)
    if (ms > STOP_MS) world.problems.push(`${name} took ${Math.round(ms)} ms to stop`)
  }
}

/** Waits for a condition; the audit reports a condition that does not hold at the deadline. */
async function until(condition: () => boolean, withinMs: number): Promise<void> {
  for (const end = performance.now() + withinMs; !condition() && performance.now() < end; )
    await delay(POLL_MS)
}

const count = (words: readonly string[]): Record<string, number> =>
  Object.fromEntries([...new Set(words)].map((word) => [word, words.filter((one) => one === word).length]))

/** The events of the runs that findings are about, one line each. */
function storiesOf(runs: readonly RunFacts[], findings: readonly Finding[]): Record<string, string> {
  const concerned = new Set(findings.map(({ run }) => run))
  return Object.fromEntries(
    runs
      .filter(({ id }) => concerned.has(id))
      .map(({ id, shape, events }) => {
        const lines = events
          .filter(({ event }) => event.type !== 'agent.message.delta')
          .map(
            ({ sequence, at, event }) =>
              `${sequence} ${at.slice(11)} ${event.type} ${JSON.stringify(event.data).slice(0, 300)}`,
          )
        return [`${id} ${shape}`, lines.join('\n')]
      }),
  )
}
