import { describe, expect, it } from 'vitest'
import type { AuditRecord } from '../../../contracts/audit.ts'
import type { RunEnvelope, RunEvent } from '../../../contracts/events.ts'
import { auditRound } from './audit.ts'
import { checkEndings } from './endings.ts'
import type { RoundFacts, RunFacts } from './facts.ts'

const AT = '2026-01-01T00:00:00.000Z'
const COMMAND = 'mktemp marks/r0m0.XXXXXXXXXX'
const MARK = 'r0m0.abcdefghij'

const EVENTS: RunEvent[] = [
  { type: 'run.queued', data: { task: 'chaos' } },
  {
    type: 'tool.call',
    data: { callId: 'c1', tool: 'run_command', request: { command: COMMAND }, verdict: 'ask', reasons: [] },
  },
  { type: 'shell.approved', data: { requestId: 'q1', callId: 'c1', by: 'local' } },
  {
    type: 'command.output',
    data: { commandId: 'c1', callId: 'c1', stream: 'stdout', chunk: `marks/${MARK}\n` },
  },
  {
    type: 'tool.result',
    data: {
      callId: 'c1',
      tool: 'run_command',
      outcome: { ok: true, content: '', facts: { exitCode: 0 } },
      durationMs: 1,
    },
  },
  { type: 'done', data: { state: 'succeeded' } },
]

const numbered = (events: readonly RunEvent[]): RunEnvelope[] =>
  events.map((event, index) => ({ sequence: index + 1, at: AT, event }))
const received = (events: readonly RunEnvelope[]) =>
  events.map((event) => ({ id: String(event.sequence), data: JSON.stringify(event) }))

/** The run with these events, in the store and for its readers. */
function withEvents(events: readonly RunEvent[]): Partial<RunFacts> {
  const all = numbered(events)
  const connection = { replica: 'api-1', status: 200 }
  return {
    events: all,
    storedSequences: all.map(({ sequence }) => sequence),
    readers: [
      [
        { ...connection, after: 0, received: received(all.slice(0, 2)) },
        { ...connection, after: 2, received: received(all.slice(2)) },
      ],
    ],
  }
}

const RUN: RunFacts = {
  id: 'run_1',
  index: 0,
  shape: 'approval',
  script: { turns: [], marks: [{ name: 'r0m0', command: COMMAND, needsApproval: true }], commands: [] },
  isLeft: false,
  hasCancelled: false,
  state: 'succeeded',
  openRequests: 0,
  events: [],
  storedSequences: [],
  readers: [],
  ...withEvents(EVENTS),
  approvals: [{ requestId: 'q1', callId: 'c1', state: 'approved' }],
  decisions: [
    { requestId: 'q1', outcome: 'approved', key: 'k1', status: 200 },
    { requestId: 'q1', outcome: 'denied', key: 'k2', status: 409 },
  ],
  turns: [],
  sentTurns: [],
  commandIds: [],
  sentCommands: [],
  marks: [MARK],
}

const record = (kind: AuditRecord['kind'], sequence: number): AuditRecord => ({
  version: 1,
  kind,
  runId: 'run_1',
  sequence,
  at: AT,
  callId: 'c1',
  actor: 'agent:scripted',
  tool: 'run_command',
  policyVersion: '1',
  keyId: 'k',
})

const SOUND: RoundFacts = {
  runs: [RUN],
  runsByIndex: { 0: 1 },
  requested: [0],
  verification: { isComplete: true, ok: true, chains: 2, records: 3, problems: [], problemCount: 0 },
  records: [record('intent', 1), record('outcome', 2)],
  processes: [],
  folders: [],
  files: [],
  claims: [],
  clusterObjects: [],
  problems: [],
}

const withRun = (change: Partial<RunFacts>): RoundFacts => ({ ...SOUND, runs: [{ ...RUN, ...change }] })
const without = (type: RunEvent['type']) => EVENTS.filter((event) => event.type !== type)
const findingsOf = (facts: RoundFacts) =>
  auditRound(facts).map(({ check, message }) => `${check}: ${message}`)

it('finds nothing in a sound round', () => {
  expect(findingsOf(SOUND)).toEqual([])
})

it('accepts a run without a person who decides, while its request is open', () => {
  const waiting = { state: 'suspended', waitingFor: 'approval', isLeft: true, openRequests: 1 }

  expect(findingsOf(withRun(waiting))).toEqual([])
  expect(findingsOf(withRun({ ...waiting, openRequests: 0 }))).toEqual([
    'endings: is suspended for approval, and no request of it is open',
  ])
})

type Doctored = readonly [what: string, facts: RoundFacts, finding: RegExp]

const readers = (change: (all: { id: string; data: string }[]) => { id: string; data: string }[]) =>
  withRun({
    readers: [[{ replica: 'api-1', status: 200, after: 0, received: change(received(RUN.events)) }]],
  })

const STREAMS: readonly Doctored[] = [
  ['a reader missed an event', readers((all) => all.toSpliced(2, 1)), /sent event 4 after event 2/],
  [
    'a reader got an event twice',
    readers((all) => all.toSpliced(2, 0, ...all.slice(1, 2))),
    /sent event 2 after/,
  ],
  ['a reader missed the end', readers((all) => all.slice(0, -1)), /ended at event 5 of 6/],
  [
    'a reader got another text than the store has',
    readers((all) => all.with(0, { id: '1', data: '{}' })),
    /event 1 differs from the store/,
  ],
  ['the store misses an event', withRun({ storedSequences: [1, 2, 4, 5, 6] }), /the store has/],
  ['the pages have a gap', withRun({ events: RUN.events.toSpliced(1, 1) }), /pages of events has sequence 3/],
  ['events follow the end', withRun(withEvents([...EVENTS, EVENTS[0] as RunEvent])), /1 events after done/],
]

const CALLS: readonly Doctored[] = [
  [
    'a call was announced twice',
    withRun(withEvents(EVENTS.toSpliced(1, 0, EVENTS[1] as RunEvent))),
    /announced twice/,
  ],
  ['a call ended twice', withRun(withEvents(EVENTS.toSpliced(4, 0, EVENTS[4] as RunEvent))), /ended twice/],
  [
    'a command ran twice',
    withRun({ marks: [MARK, 'r0m0.zzzzzzzzzz'] }),
    /r0m0 ran 2 times, and 1 of its calls/,
  ],
  ['a success had no effect', withRun({ marks: [] }), /reports 1 successes, and ran 0 times/],
  [
    'a denied command ran',
    withRun({
      ...withEvents([
        ...EVENTS.slice(0, 2),
        { type: 'tool.error', data: { callId: 'c1', tool: 'run_command', code: 'denied', message: 'no' } },
        ...EVENTS.slice(5),
      ]),
      approvals: [],
      decisions: [],
    }),
    /ran 1 times, and 0 of its calls/,
  ],
  [
    'one call shows two executions',
    withRun(
      withEvents(
        EVENTS.with(3, {
          type: 'command.output',
          data: {
            commandId: 'c1',
            callId: 'c1',
            stream: 'stdout',
            chunk: `marks/${MARK} marks/r0m0.zzzzzzzzzz`,
          },
        }),
      ),
    ),
    /call c1 ran 2 times/,
  ],
  [
    'one execution appears in two calls',
    withRun(
      withEvents(
        EVENTS.toSpliced(4, 0, {
          type: 'command.output',
          data: { commandId: 'c2', callId: 'c2', stream: 'stdout', chunk: `marks/${MARK}` },
        }),
      ),
    ),
    /appears in 2 calls/,
  ],
]

const accepted = (key: string, outcome: 'approved' | 'denied') =>
  ({ requestId: 'q1', outcome, key, status: 200 }) as const

const DECISIONS: readonly Doctored[] = [
  [
    'two decisions were accepted',
    withRun({ decisions: [accepted('k1', 'approved'), accepted('k2', 'approved')] }),
    /2 decisions were accepted/,
  ],
  [
    'the decision that stands is another one',
    withRun({ decisions: [accepted('k1', 'denied')] }),
    /accepted as denied and is approved/,
  ],
  ['a decision has no event', withRun(withEvents(without('shell.approved'))), /no event reports it/],
  [
    'a request was decided twice',
    withRun(withEvents(EVENTS.toSpliced(3, 0, EVENTS[2] as RunEvent))),
    /decided 2 times: approved, approved/,
  ],
  [
    'one call asked twice',
    withRun({ approvals: [...RUN.approvals, { requestId: 'q2', callId: 'c1', state: 'superseded' }] }),
    /more than one request/,
  ],
  [
    'a turn was taken twice',
    withRun({ sentTurns: [{ prompt: 'turn 1', ids: ['t1', 't2'] }] }),
    /taken 2 times/,
  ],
  [
    'a turn is stored twice',
    withRun({
      sentTurns: [{ prompt: 'turn 1', ids: ['t1'] }],
      turns: [
        { id: 't1', prompt: 'turn 1' },
        { id: 't2', prompt: 'turn 1' },
      ],
    }),
    /stored 2 times/,
  ],
  [
    'a command of a person is stored twice',
    withRun({ commandIds: ['x'] }),
    /has 1 commands, and 0 were sent/,
  ],
]

const ENDINGS: readonly Doctored[] = [
  ['a run is stranded', withRun({ state: 'running' }), /is stranded: running/],
  [
    'a run waits although a person acted',
    withRun({ state: 'waiting', openRequests: 1 }),
    /is stranded: waiting/,
  ],
  [
    'the last event says something else',
    withRun({ state: 'failed', failureCode: 'sandbox_lost' }),
    /is failed, and/,
  ],
  [
    'a run failed for another reason than a fault',
    withRun({ failureCode: 'internal' }),
    /failed with internal/,
  ],
  ['a run was cancelled without a request', withRun({ state: 'cancelled' }), /cancelled without a request/],
  ['a run succeeded without its work', withRun(withEvents(without('tool.result'))), /r0m0 never ended/],
  ['a request made two runs', { ...SOUND, runsByIndex: { 0: 2 } }, /request 0 made 2 runs/],
  ['a request made no run', { ...SOUND, runsByIndex: {} }, /request 0 made 0 runs/],
]

const REST: readonly Doctored[] = [
  ['the audit was not verified', { ...SOUND, verification: undefined }, /could not be verified/],
  [
    'the audit does not verify',
    {
      ...SOUND,
      verification: { ...(SOUND.verification as object), ok: false } as RoundFacts['verification'],
    },
    /does not verify/,
  ],
  ['an intent has no outcome', { ...SOUND, records: SOUND.records.slice(0, 1) }, /has 0 outcomes/],
  [
    'an intent has two outcomes',
    { ...SOUND, records: [...SOUND.records, record('outcome', 3)] },
    /has 2 outcomes/,
  ],
  ['a call has two intents', { ...SOUND, records: [...SOUND.records, record('intent', 3)] }, /has 2 intents/],
  ['a process is left', { ...SOUND, processes: ['4711 node'] }, /left process: 4711 node/],
  ['a folder is left', { ...SOUND, folders: ['x'] }, /left folder: x/],
  ['a file is left', { ...SOUND, files: ['service.sock'] }, /left file: service.sock/],
  ['a claim is left', { ...SOUND, claims: ['agent-1 is bound'] }, /left claim: agent-1/],
  ['an object is left in the cluster', { ...SOUND, clusterObjects: ['pod-1'] }, /left in the cluster: pod-1/],
  ['a service ended by itself', { ...SOUND, problems: ['api-1 ended'] }, /service: api-1 ended/],
]

describe('the audit reports a round in which', () => {
  it.each([...STREAMS, ...CALLS, ...DECISIONS, ...ENDINGS, ...REST])('%s', (_what, facts, finding) => {
    expect(findingsOf(facts).join('\n')).toMatch(finding)
  })
})

describe('a run that did the steps of a turn twice', () => {
  const second = COMMAND.replace('r0m0', 'r0m1')
  const run = (command: string) => ({ kind: 'tool' as const, tool: 'run_command', arguments: { command } })
  const called = (turn: string): RunEvent[] => [
    {
      type: 'tool.call',
      data: {
        callId: `${turn}.1`,
        tool: 'run_command',
        request: { command: COMMAND },
        verdict: 'allow',
        reasons: [],
      },
    },
    {
      type: 'tool.result',
      data: {
        callId: `${turn}.1`,
        tool: 'run_command',
        outcome: { ok: true, content: '', facts: {} },
        durationMs: 1,
      },
    },
  ]
  const interrupted: RunEvent = {
    type: 'run.interrupted',
    data: { code: 'api_restarted', message: 'the service was restarted' },
  }
  const factsOf = (...events: RunEvent[]): RunFacts => ({
    ...RUN,
    script: {
      ...RUN.script,
      turns: [[run(COMMAND)], [run(second)]],
      marks: [...RUN.script.marks, { name: 'r0m1', command: second, needsApproval: false }],
    },
    ...withEvents([...events, { type: 'done', data: { state: 'succeeded' } }]),
  })

  it('has no turn left for the last steps, if the service was killed in between', () => {
    expect(checkEndings(factsOf(...called('turn_1'), interrupted, ...called('turn_2')))).toEqual([])
  })

  it.each([
    ['without an interruption', [...called('turn_1'), ...called('turn_2')]],
    ['in the same turn', [...called('turn_1'), interrupted, ...called('turn_1')]],
  ])('misses the last steps %s', (_case, events) => {
    expect(checkEndings(factsOf(...events)).map(({ message }) => message)).toEqual([
      'succeeded, and r0m1 never ended',
    ])
  })
})
