import type { Diagnostics, Overdue } from '../../contracts/diagnostics.ts'
import { age } from '../terminal/duration.ts'
import { table } from '../terminal/table.ts'
import type { Terminal } from '../terminal/terminal.ts'
import { visibleLine } from '../terminal/visible.ts'

type Look = Pick<Terminal, 'paint' | 'width'>
type Work = NonNullable<Diagnostics['work']>

const NAME_WIDTH = 11

const OVERDUE_WORDS: Readonly<Record<keyof Overdue, string>> = {
  approval_expiry: 'expired requests still open',
  sandbox_release: 'sandboxes not released',
  queue_deadline: 'runs past the deadline of the queue',
  run_takeover: 'runs without a replica',
}

const WAIT_WORDS = {
  approval: 'an approval',
  question: 'an answer',
  resume: 'a resume',
  turn: 'a turn',
}

/** The state of a deployment on one page, for a terminal of 80 columns. */
export function topLines(diagnostics: Diagnostics, look: Look): string[] {
  const now = Date.parse(diagnostics.at)
  const { work } = diagnostics
  return [
    ...storeLines(diagnostics, look),
    ...replicaLines(diagnostics, look, now),
    ...poolLines(diagnostics, look),
    ...(work ? workLines(work, look, now) : [row(look, 'runs', look.paint.red('unknown without the store'))]),
  ]
}

const row = ({ paint }: Look, name: string, value: string): string =>
  `${paint.dim(name.padEnd(NAME_WIDTH))}${value}`

/** The first value has the name, the others are below it. */
const rows = (look: Look, name: string, values: readonly string[]): string[] =>
  values.map((value, index) => row(look, index === 0 ? name : '', value))

function storeLines({ store, checks }: Diagnostics, look: Look): string[] {
  const { paint } = look
  const state = store.usable
    ? `${paint.green('usable')}, a write takes ${store.latencyMs ?? 0} ms`
    : `${paint.red('not usable')}: ${visibleLine(store.problem ?? 'no reason known')}`
  const broken = checks
    .filter(({ ok }) => !ok)
    .map(({ name, detail }) => paint.red(visibleLine(`${name}: ${detail}`)))
  return [row(look, 'store', `${store.engine}, ${state}`), ...rows(look, 'cluster', broken)]
}

function replicaLines({ replicas }: Diagnostics, look: Look, now: number): string[] {
  const { paint } = look
  const lines = table(
    replicas,
    [
      { title: 'REPLICA', value: ({ name }) => visibleLine(name) },
      { title: 'VERSION', value: ({ version }) => visibleLine(version) },
      { title: 'UP', value: ({ startedAt }) => age(startedAt, now) },
      {
        title: 'HEARTBEAT',
        value: ({ lastHeartbeatAt, isAlive }) => `${age(lastHeartbeatAt, now)} ago${isAlive ? '' : ', gone'}`,
        paint: (text, { isAlive }) => (isAlive ? text : paint.red(text)),
      },
    ],
    { paint, width: look.width - NAME_WIDTH },
  )
  return rows(look, 'replicas', lines)
}

function poolLines({ pools }: Diagnostics, look: Look): string[] {
  const values = pools.map(({ kind, name, ready, starting, claimed }) => {
    const waiting = `${ready} ready${starting > 0 ? `, ${starting} starting` : ''}, ${claimed} in use`
    return `${visibleLine(kind === undefined ? name : `${kind} (${name})`)}: ${waiting}`
  })
  return rows(look, 'sandboxes', values.length > 0 ? values : ['no pool is known'])
}

function workLines(work: Work, look: Look, now: number): string[] {
  const { paint } = look
  const runs = Object.entries(work.runs).map(([state, count]) => `${count} ${state}`)
  const late = (Object.keys(OVERDUE_WORDS) as (keyof Overdue)[])
    .filter((kind) => work.overdue[kind] > 0)
    .map((kind) => paint.red(`${work.overdue[kind]} ${OVERDUE_WORDS[kind]}`))
  const gates = work.gates.map(
    ({ kind, open, oldestAt }) => `${open} ${kind}, the oldest ${age(oldestAt, now)} ago`,
  )
  return [
    ...rows(look, 'runs', inLines(runs.length > 0 ? runs : ['none'], look.width - NAME_WIDTH)),
    ...rows(look, 'queue', queueValues(work, now)),
    ...rows(look, 'requests', gates.length > 0 ? gates : ['none is open']),
    ...rows(look, 'overdue', late.length > 0 ? late : ['none']),
    ...personLines(work, look, now),
  ]
}

function queueValues({ queue }: Work, now: number): string[] {
  const busy = queue.filter(({ waiting }) => waiting > 0)
  if (busy.length === 0) return ['empty']
  return busy.flatMap(({ kind, waiting, oldestWaitSeconds, next }) => {
    const oldest = age(new Date(now - oldestWaitSeconds * 1_000).toISOString(), now)
    const when = next?.estimatedStart === undefined ? '' : `, in about ${until(next.estimatedStart, now)}`
    const who = next ? [`next: a run of ${visibleLine(next.owner)}${when}`] : []
    return [`${kind}: ${waiting} wait, the longest for ${oldest}`, ...who]
  })
}

const until = (iso: string, now: number): string => age(new Date(now).toISOString(), Date.parse(iso))

function personLines({ needPerson }: Work, look: Look, now: number): string[] {
  if (needPerson.length === 0) return [row(look, 'people', 'no run waits for a person')]
  const lines = table(
    needPerson,
    [
      { title: 'RUN', value: ({ runId }) => visibleLine(runId) },
      { title: 'FOR', value: ({ waitingFor }) => WAIT_WORDS[waitingFor] },
      { title: 'SINCE', value: ({ since }) => age(since, now) },
      { title: 'OWNER', value: ({ owner }) => visibleLine(owner) },
    ],
    { paint: look.paint, width: look.width },
  )
  const hint = look.paint.dim('What a run waits for: agentweaver show RUN')
  return ['', look.paint.bold('Runs that wait for a person'), ...lines, hint]
}

/** Joins values with commas into lines of at most `width` columns. */
function inLines(values: readonly string[], width: number): string[] {
  const lines: string[] = []
  for (const value of values) {
    const last = lines.pop()
    const joined = last === undefined ? value : `${last}, ${value}`
    if (last === undefined || joined.length <= width) lines.push(joined)
    else lines.push(`${last},`, value)
  }
  return lines
}
