import type { AuditRecord, AuditVerification } from '../../contracts/audit.ts'
import type { RunEnvelope } from '../../contracts/events.ts'
import { API_ROUTES } from '../../contracts/routes.ts'
import { delay } from '../../runtime/kit/deadline.ts'
import type { ApprovalFact, RoundFacts, RunFacts } from './audit/facts.ts'
import type { Http } from './people/http.ts'
import type { Person } from './people/person.ts'
import type { RoundPlan } from './plan/plan.ts'
import { processesOf } from './world/processes.ts'
import type { Query } from './world/query.ts'
import type { World } from './world/world.ts'

/** Facts that only a running service has. */
export type ServedFacts = {
  readonly events: ReadonlyMap<string, readonly RunEnvelope[]>
  readonly verification: AuditVerification | undefined
  readonly records: readonly AuditRecord[]
}

/** A replica that was killed may start again at this moment, on a machine that is busy with other rounds. */
const SERVES_WITHIN_MS = 120_000
const PAUSE_MS = 250

/** Reads one page from any replica. */
async function read(world: World, http: Http, path: string): Promise<unknown> {
  let last: number | undefined
  for (let attempt = 0, end = performance.now() + SERVES_WITHIN_MS; performance.now() < end; attempt += 1) {
    const replica = world.replicas[attempt % world.replicas.length]
    const answer = replica && (await http.ask(replica, { method: 'GET', path, timeoutMs: 30_000 }))
    if (answer?.status === 200) return answer.body
    last = answer?.status
    await delay(PAUSE_MS)
  }
  throw new Error(`the service does not serve ${path}: ${last ?? 'no answer'}`)
}

type Page<T> = { readonly items: T[]; readonly next?: string }

async function readPages<T>(world: World, http: Http, path: string): Promise<T[]> {
  const items: T[] = []
  for (let after: string | undefined; ; ) {
    const query = `limit=1000${after === undefined ? '' : `&after=${encodeURIComponent(after)}`}`
    const page = (await read(world, http, `${path}?${query}`)) as Page<T>
    items.push(...page.items)
    if (page.next === undefined) return items
    after = page.next
  }
}

export async function collectServed(world: World, http: Http, ids: readonly string[]): Promise<ServedFacts> {
  const events = new Map<string, readonly RunEnvelope[]>()
  for (const id of ids) events.set(id, await readPages(world, http, `${API_ROUTES.runs}/${id}/events`))
  return {
    events,
    verification: await verify(world, http),
    records: await readPages<AuditRecord>(world, http, API_ROUTES.audit),
  }
}

/** One report per line; the last one is complete. */
async function verify(world: World, http: Http): Promise<AuditVerification | undefined> {
  const [replica] = world.replicas
  const path = `${API_ROUTES.audit}/verification`
  const answer = replica && (await http.askText(replica, path))
  const last = answer?.trim().split('\n').at(-1)
  return last === undefined || last === '' ? undefined : (JSON.parse(last) as AuditVerification)
}

export type OpenRun = Pick<RunFacts, 'state' | 'waitingFor' | 'openRequests'>

export type CollectParts = {
  readonly world: World
  readonly plan: RoundPlan
  readonly people: readonly Person[]
  readonly served: ServedFacts
  /** Runs that had not ended, before those that were left waiting were cancelled. */
  readonly open: ReadonlyMap<string, OpenRun>
}

/** All facts of a round, after its services have stopped. */
export async function collectFacts(parts: CollectParts): Promise<RoundFacts> {
  const { world, plan, people, served } = parts
  return world.query(async (query) => {
    const rows = await query('select id, labels_json from runs')
    const labels = rows.map((row) =>
      String((JSON.parse(String(row['labels_json'])) as { chaos?: string }).chaos),
    )
    const runsByIndex = Object.fromEntries(
      labels.map((label) => [label, labels.filter((one) => one === label).length]),
    )
    const runs: RunFacts[] = []
    for (const person of people) {
      const id = person.id()
      if (id !== undefined) runs.push(await factsOf(parts, { person, id, query }))
    }
    const unreleased = await query("select name, state from claims where state <> 'released'")
    // The reaper releases the row of a claim that is gone, minutes later (test/runs/reaper.test.ts).
    const inCluster = world.cluster?.left()
    const claims = unreleased.filter(({ name }) => inCluster?.includes(String(name)) ?? true)
    return {
      runs,
      runsByIndex,
      requested: plan.runs.map(({ index }) => index),
      verification: served.verification,
      records: served.records,
      processes: await settledProcesses(world),
      folders: world.foldersLeft(),
      files: world.filesLeft(),
      claims: claims.map(({ name, state }) => `${name} is ${state}`),
      clusterObjects: world.cluster?.left() ?? [],
      problems: world.problems,
    }
  })
}

type OneRun = { readonly person: Person; readonly id: string; readonly query: Query }

async function factsOf(
  { world, served, open }: CollectParts,
  { person, id, query }: OneRun,
): Promise<RunFacts> {
  const { plan } = person
  const [row] = await query(`select state, failure_json from runs where id = '${id}'`)
  const failure = JSON.parse(String(row?.['failure_json'] ?? 'null')) as {
    code: string
    message: string
  } | null
  const now = { state: String(row?.['state']), openRequests: 0 }
  const sequences = await query(`select sequence from events where run_id = '${id}' order by sequence`)
  const approvals = await query(`select request_id, call_id, state from approvals where run_id = '${id}'`)
  const turns = await query(`select id, prompt from turns where run_id = '${id}' order by ordinal`)
  const commands = await query(`select id from commands where run_id = '${id}'`)
  const isVisible = world.cluster !== undefined || plan.workspace === 'path'
  return {
    id,
    index: plan.index,
    shape: plan.shape,
    script: person.script,
    isLeft: plan.isLeft,
    hasCancelled: person.hasCancelled() || plan.isLeft,
    ...(open.get(id) ?? now),
    ...(failure && { failureCode: failure.code, failureMessage: failure.message }),
    events: served.events.get(id) ?? [],
    storedSequences: sequences.map(({ sequence }) => Number(sequence)),
    readers: person.readers.map(({ connections }) => connections),
    approvals: approvals.map(
      (one): ApprovalFact => ({
        requestId: String(one['request_id']),
        callId: String(one['call_id']),
        state: String(one['state']),
      }),
    ),
    decisions: person.decisions,
    turns: turns.map((turn) => ({ id: String(turn['id']), prompt: String(turn['prompt']) })),
    sentTurns: [...person.turns].map(([prompt, ids]) => ({ prompt, ids: [...ids] })),
    commandIds: commands.map((command) => String(command['id'])),
    sentCommands: person.commands,
    marks: isVisible ? world.marksOf(plan.index) : undefined,
  }
}

const LEAVING_TRIES = 20

/** Processes that are about to end have five seconds for it. Pods in standby do not count, because this program starts them. */
async function settledProcesses(world: World): Promise<string[]> {
  await world.cluster?.close()
  for (let attempt = 0; ; attempt += 1) {
    const left = processesOf(world.token)
    if (left.length === 0 || attempt === LEAVING_TRIES)
      return left.map(({ pid, command }) => `${pid} ${command.slice(0, 160)}`)
    await delay(PAUSE_MS)
  }
}
