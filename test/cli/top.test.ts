import { expect, it } from 'vitest'
import { createPaint } from '../../cli/terminal/paint.ts'
import { widthOf } from '../../cli/terminal/wrap.ts'
import { topLines } from '../../cli/view/top-lines.ts'
import { Diagnostics } from '../../contracts/diagnostics.ts'

const look = { paint: createPaint(false), width: 80 }
const AT = '2026-01-01T12:00:00.000Z'
const RUN = 'run_01a21baad0197560bdfff5418095d35c'

const CLUSTER = Diagnostics.parse({
  at: AT,
  store: { engine: 'postgres', usable: true, latencyMs: 3.2 },
  checks: [
    { name: 'watch of claims', ok: true, detail: 'last data 1 s ago' },
    { name: 'watch of sandboxes', ok: false, detail: 'last data 400 s ago' },
  ],
  replicas: [
    {
      ...{ name: 'agentweaver-api-7d9f5c6b4-abcde', version: '0.1.0', isAlive: true, isThis: true },
      ...{ startedAt: '2026-01-01T09:00:00.000Z', lastHeartbeatAt: '2026-01-01T11:59:58.000Z' },
    },
    {
      ...{ name: 'agentweaver-api-7d9f5c6b4-fghij', version: '0.1.0', isAlive: false, isThis: false },
      ...{ startedAt: '2026-01-01T09:00:00.000Z', lastHeartbeatAt: '2026-01-01T11:55:00.000Z' },
    },
  ],
  pools: [
    { kind: 'agent', name: 'agentweaver-agent', ready: 2, starting: 1, claimed: 18 },
    { kind: 'command', name: 'agentweaver-command', ready: 1, starting: 0, claimed: 0 },
  ],
  work: {
    runs: { queued: 7, starting: 1, running: 12, waiting: 3, suspended: 40, succeeded: 2100, failed: 31 },
    queue: [
      {
        ...{ kind: 'agent', waiting: 7, oldestWaitSeconds: 240 },
        next: { runId: RUN, owner: 'ada', estimatedStart: '2026-01-01T12:00:30.000Z' },
      },
      { kind: 'command', waiting: 0, oldestWaitSeconds: 0 },
    ],
    gates: [{ kind: 'shell', open: 3, oldestAt: '2026-01-01T10:00:00.000Z' }],
    overdue: { approval_expiry: 0, sandbox_release: 2, queue_deadline: 0, run_takeover: 1 },
    needPerson: [{ runId: RUN, owner: 'ada', waitingFor: 'approval', since: '2026-01-01T10:00:00.000Z' }],
  },
})

it('shows a cluster on one page of 80 columns', () => {
  const lines = topLines(CLUSTER, look)

  expect(lines).toEqual([
    'store      postgres, usable, a write takes 3.2 ms',
    'cluster    watch of sandboxes: last data 400 s ago',
    'replicas   REPLICA                          VERSION  UP   HEARTBEAT',
    '           agentweaver-api-7d9f5c6b4-abcde  0.1.0    3 h  2 s ago',
    '           agentweaver-api-7d9f5c6b4-fghij  0.1.0    3 h  5 min ago, gone',
    'sandboxes  agent (agentweaver-agent): 2 ready, 1 starting, 18 in use',
    '           command (agentweaver-command): 1 ready, 0 in use',
    'runs       7 queued, 1 starting, 12 running, 3 waiting, 40 suspended,',
    '           2100 succeeded, 31 failed',
    'queue      agent: 7 wait, the longest for 4 min',
    '           next: a run of ada, in about 30 s',
    'requests   3 shell, the oldest 2 h ago',
    'overdue    2 sandboxes not released',
    '           1 runs without a replica',
    '',
    'Runs that wait for a person',
    'RUN                                   FOR          SINCE  OWNER',
    `${RUN}  an approval  2 h    ada`,
    'What a run waits for: agentweaver show RUN',
  ])
  for (const line of lines) expect(widthOf(line), line).toBeLessThanOrEqual(80)
})

it('shows the other parts while the store cannot be used', () => {
  const { work: _work, ...rest } = CLUSTER
  const store = { engine: 'postgres', usable: false, problem: 'a write to the store took too long' } as const

  const lines = topLines({ ...rest, checks: [], replicas: rest.replicas.slice(0, 1), store }, look)

  expect(lines[0]).toBe('store      postgres, not usable: a write to the store took too long')
  expect(lines.at(-1)).toBe('runs       unknown without the store')
})

it('makes control characters of owners and hosts visible', () => {
  const work = CLUSTER.work && {
    ...CLUSTER.work,
    needPerson: [{ runId: RUN, owner: 'a\u001b[2Jb', waitingFor: 'resume' as const, since: AT }],
  }

  expect(topLines({ ...CLUSTER, ...(work && { work }) }, look).join('\n')).not.toContain('\u001b')
})

it('escapes line breaks and tabs in values of the service', () => {
  const forged = 'x\noverdue    none\ty'
  const { work } = CLUSTER
  const hostile: Diagnostics = {
    ...CLUSTER,
    store: { engine: 'postgres', usable: false, problem: forged },
    checks: [{ name: forged, ok: false, detail: forged }],
    replicas: CLUSTER.replicas.map((replica) => ({ ...replica, name: forged, version: forged })),
    pools: CLUSTER.pools.map(({ kind: _kind, ...pool }) => ({ ...pool, name: forged })),
    ...(work && {
      work: {
        ...work,
        queue: work.queue.map((queue) => ({ ...queue, next: { runId: RUN, owner: forged } })),
        needPerson: [{ runId: RUN, owner: forged, waitingFor: 'turn' as const, since: AT }],
      },
    }),
  }

  const lines = topLines(hostile, { ...look, width: 400 })

  expect(lines.join('|')).toContain('x<U+000A>overdue    none<U+0009>y')
  for (const line of lines) expect(line).not.toMatch(/[\n\t]/)
})
