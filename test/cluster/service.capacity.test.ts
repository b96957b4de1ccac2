import { expect, it } from 'vitest'
import type { PlanStep } from '../../contracts/agents.ts'
import type { RunEvent } from '../../contracts/events.ts'
import { waitUntil } from '../../devcluster/host/wait-until.ts'
import { describeWith } from './helpers/features.ts'
import { useServiceSpace } from './helpers/service-space.ts'

const RUN_MS = 100_000

describeWith(['agent-sandbox', 'real node'], 'a run without free capacity', () => {
  const space = useServiceSpace({ runtimeClass: undefined, replicas: { agent: 1, command: 0 } })

  const start = (ms: number) => {
    const turn: PlanStep[] = [
      { kind: 'wait', ms },
      { kind: 'say', text: 'done' },
    ]
    return space.client().startRun({
      task: 'take a place',
      workspace: { kind: 'empty' },
      agent: { kind: 'scripted', plan: { turns: [turn] } },
    })
  }
  const eventsOf = (id: string) => space.client().streamEvents(id, { signal: AbortSignal.timeout(RUN_MS) })
  async function untilEvent(id: string, type: RunEvent['type']): Promise<RunEvent> {
    for await (const { event } of eventsOf(id)) if (event.type === type) return event
    throw new Error(`the run ended without ${type}`)
  }
  async function all(id: string): Promise<RunEvent[]> {
    const seen: RunEvent[] = []
    for await (const { event } of eventsOf(id)) seen.push(event)
    return seen
  }

  /** Creates a namespace with a quota of one pod, and a run that uses it. */
  async function aFullNamespace() {
    const { namespace } = space
    const quota = { apiVersion: 'v1', plural: 'resourcequotas', namespace, name: 'full' }
    await space.waitForPool('agent')
    const hard = { pods: '1' }
    await space.kube().create({
      apiVersion: 'v1',
      kind: 'ResourceQuota',
      metadata: { name: quota.name, namespace },
      spec: { hard },
    })
    await waitUntil({ what: 'the quota to count', timeoutMs: RUN_MS, everyMs: 50 }, async () =>
      (await space.kube().get(quota))['status']?.used?.pods === '1' ? true : undefined,
    )
    const { id } = await start(600_000)
    await untilEvent(id, 'run.started')
    return { id, lift: () => space.kube().delete(quota) }
  }

  it('reports the resource that is full, and starts when the earlier run has ended', async () => {
    const first = await aFullNamespace()
    const second = await start(0)

    const pending = await untilEvent(second.id, 'subtask.pending_capacity')
    const { state } = await space.client().readRun(second.id)
    const claims = await space.claims()
    await space.client().cancel(first.id)
    await untilEvent(second.id, 'run.started')
    const events = await all(second.id)
    await first.lift()

    expect(pending).toMatchObject({ data: { resource: 'pods', requested: 1, available: 0, attempt: 1 } })
    expect(state).toBe('pending_capacity')
    expect(claims, 'a waiting run must hold no claim').toHaveLength(1)
    expect(events.at(-1)).toEqual({ type: 'done', data: { state: 'succeeded' } })
    await space.nothingLeft()
  })

  it('can be cancelled while it waits, and leaves no claim', async () => {
    const first = await aFullNamespace()
    const second = await start(0)
    await untilEvent(second.id, 'subtask.pending_capacity')

    await space.client().cancel(second.id)
    const events = await all(second.id)
    await space.client().cancel(first.id)
    await first.lift()

    expect(events.map(({ type }) => type)).toContain('run.cancelled')
    expect(await space.client().readRun(second.id)).toMatchObject({ state: 'cancelled' })
    await space.nothingLeft()
  })
})
