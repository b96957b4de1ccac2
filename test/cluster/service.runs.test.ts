import { expect, inject, it } from 'vitest'
import type { PlanStep } from '../../contracts/agents.ts'
import { CLAIM } from '../../contracts/claim.ts'
import type { RunEvent } from '../../contracts/events.ts'
import { until } from '../helpers/until.ts'
import { createAuditLog } from './helpers/audit-log.ts'
import { describeWith, type Feature } from './helpers/features.ts'
import { useServiceSpace } from './helpers/service-space.ts'

const RUNTIMES: readonly (readonly [string, Feature, string | undefined, RegExp])[] = [
  ['runc', 'real node', undefined, /system call filter/],
  ['gvisor', 'gvisor', 'gvisor', /private network namespace/],
]
const RUN_MS = 90_000
const shell = (command: string): PlanStep => ({ kind: 'tool', tool: 'run_command', arguments: { command } })
const say = (text: string): PlanStep => ({ kind: 'say', text })

for (const [name, feature, runtimeClass, form] of RUNTIMES) {
  describeWith(['agent-sandbox', feature], `a run of the service on a cluster, under ${name}`, () => {
    const space = useServiceSpace({ runtimeClass, replicas: { agent: 1, command: 1 } })

    const startRun = (steps: PlanStep[]) =>
      space.client().startRun({
        task: 'see what a sandbox is',
        workspace: { kind: 'empty' },
        agent: { kind: 'scripted', plan: { turns: [steps] } },
      })

    /** Returns all events of a run up to its end, and calls `on` with each event. */
    async function follow(
      id: string,
      on: (event: RunEvent) => unknown = () => undefined,
    ): Promise<RunEvent[]> {
      const seen: RunEvent[] = []
      for await (const { event } of space
        .client()
        .streamEvents(id, { signal: AbortSignal.timeout(RUN_MS) })) {
        seen.push(event)
        await on(event)
      }
      return seen
    }
    const dataOf = <T extends RunEvent['type']>(events: readonly RunEvent[], type: T) =>
      events.flatMap((event) =>
        event.type === type ? [event.data as Extract<RunEvent, { type: T }>['data']] : [],
      )
    const outputOf = (events: readonly RunEvent[]) =>
      dataOf(events, 'command.output')
        .map(({ chunk }) => chunk)
        .join('')

    it('is served by its own warm pod, with commands in the toolbox, and the pod is deleted at the end', async () => {
      await space.waitForPool('agent')

      const { id } = await startRun([shell('id -u; pwd; echo hello > here; ls'), say('done')])
      const events = await follow(id)

      const [bound] = dataOf(events, 'sandbox.execution_pod.bound')
      expect(bound).toMatchObject({
        launch: 'warm',
        claimName: expect.stringMatching(/^agent-[0-9a-f]{40}$/),
      })
      expect(outputOf(events)).toBe('1000\n/workspace\nhere\n')
      const [selected] = dataOf(events, 'sandbox.selected')
      expect(selected?.reason).toMatch(/^a separate pod/)
      expect(selected?.reason, 'the form of the offline runner').toMatch(form)
      expect(await space.client().readRun(id)).toMatchObject({ state: 'succeeded' })
      expect((await space.pods()).map(({ metadata }) => metadata.uid)).not.toContain(bound?.podUid)
      await space.nothingLeft()
    })

    it('finds no data of an earlier run', async () => {
      await space.waitForPool('agent')
      await follow((await startRun([shell('echo secret > /workspace/left; echo secret > /tmp/left')])).id)
      await space.waitForPool('agent')

      const events = await follow((await startRun([shell('ls -A /workspace /tmp; echo looked')])).id)

      expect(outputOf(events)).toMatch(/looked/)
      expect(outputOf(events)).not.toMatch(/left/)
    })

    it('waits for an approval before a dangerous command, and continues after it', async () => {
      await space.waitForPool('agent')
      const { id } = await startRun([shell('mkdir build'), shell('rm -rf build && echo removed')])

      const events = await follow(id, async (event) => {
        if (event.type !== 'shell.approval_required') return
        const { commandHash } = event.data
        await space.client().approveShell(id, { commandHash, scope: 'once' })
      })

      expect(dataOf(events, 'shell.approved')).toHaveLength(1)
      expect(outputOf(events)).toBe('removed\n')
    })

    it('gives its pod back while it waits for an approval, and continues in another one with its files', async () => {
      await space.waitForPool('agent')
      const { id } = await startRun([
        shell('mkdir build; echo kept > notes.txt'),
        shell('rm -rf build && cat notes.txt'),
      ])
      await until('the run waits', async () => (await space.client().readRun(id)).state === 'waiting', RUN_MS)

      const suspended = await space.client().suspend(id)
      await space.nothingLeft()
      const { items } = await space.client().listApprovals(id)
      await space.client().approveShell(id, { requestId: items[0]?.requestId ?? '', scope: 'once' })
      const events = await follow(id)

      expect(suspended).toMatchObject({ state: 'suspended', waiting: { for: 'approval' } })
      expect(dataOf(events, 'run.resumed')).toEqual([{ generation: 2 }])
      expect(outputOf(events)).toBe('kept\n')
      expect(dataOf(events, 'shell.approval_required')).toHaveLength(1)
      const pods = dataOf(events, 'sandbox.execution_pod.bound').map(({ podUid }) => podUid)
      expect(new Set(pods).size).toBe(2)
      await space.nothingLeft()
    })

    it('continues in another pod when its pod is killed during a turn, and leaves nothing', async () => {
      await space.waitForPool('agent')
      const { id } = await startRun([{ kind: 'wait', ms: 10_000 }])

      const events = await follow(id, async (event) => {
        if (event.type !== 'run.started') return
        const [bound] = (await space.claims()).map((claim) => String(claim['status'].sandbox.name))
        const path = { apiVersion: 'v1', plural: 'pods', namespace: space.namespace, name: bound }
        await space.kube().delete(path, { gracePeriodSeconds: 0 })
      })

      expect(dataOf(events, 'run.interrupted')).toMatchObject([{ code: 'sandbox_lost' }])
      expect(dataOf(events, 'run.resumed')).toEqual([{ generation: 2 }])
      expect(dataOf(events, 'done')).toEqual([{ state: 'succeeded' }])
      await space.nothingLeft()
    })

    it('fails as sandbox_lost when three of its pods are killed while they are configured or started', async () => {
      const path = (name: string) => ({ apiVersion: 'v1', plural: 'pods', namespace: space.namespace, name })
      const moments = [
        'sandbox.execution_pod.bound',
        'sandbox.selected',
        'run.started',
        'turn.started',
      ] as const
      const codes: unknown[] = []
      for (const moment of moments) {
        await space.waitForPool('agent')
        const { id } = await startRun([{ kind: 'wait', ms: 60_000 }])
        let podName = ''
        const events = await follow(id, async (event) => {
          if (event.type === 'sandbox.execution_pod.bound') podName = event.data.podName
          const isMoment = event.type === moment || (moment === 'run.started' && event.type === 'run.resumed')
          if (isMoment) await space.kube().delete(path(podName), { gracePeriodSeconds: 0 })
        })
        expect(events.map(({ type }) => type)).toContain(moment)
        codes.push(dataOf(events, 'run.failed')[0]?.code)
      }

      expect(codes).toEqual(moments.map(() => 'sandbox_lost'))
      await space.nothingLeft()
    })

    it('can be cancelled during a turn, and leaves nothing', async () => {
      await space.waitForPool('agent')
      const { id } = await startRun([{ kind: 'wait', ms: 60_000 }])

      const events = await follow(id, (event) => event.type === 'run.started' && space.client().cancel(id))

      expect(dataOf(events, 'run.cancelled')).toHaveLength(1)
      await space.nothingLeft()
    })

    it('can be a sandbox without an agent', async () => {
      await space.waitForPool('command')
      const { id } = await space.client().createSandbox({ workspace: { kind: 'empty' } })

      const output: string[] = []
      for await (const { event } of space.client().runCommand(id, { command: 'echo hello; exit 3' }))
        if (event.type === 'command.output') output.push(event.data.chunk)
      await space.client().destroySandbox(id)

      expect(output.join('')).toBe('hello\n')
      await space.nothingLeft()
    })
  })
}

describeWith(['agent-sandbox', 'real node', 'audit log'], 'a run of the service in the audit log', () => {
  const space = useServiceSpace({ runtimeClass: undefined, replicas: { agent: 1, command: 0 } })

  it('needs three requests of the service', async () => {
    await space.waitForPool('agent')
    const { id } = await space.client().startRun({
      task: 'say hello',
      workspace: { kind: 'empty' },
      agent: { kind: 'scripted', plan: { turns: [[say('hello')]] } },
    })
    let claimName = ''
    let podName = ''
    for await (const { event } of space.client().streamEvents(id)) {
      if (event.type !== 'sandbox.execution_pod.bound') continue
      claimName = event.data.claimName
      podName = event.data.podName
    }

    const { namespace } = space
    const own = [claimName, podName].flatMap((name) =>
      createAuditLog(inject('cluster').auditLog)
        .events({ namespace, name, user: 'kubernetes-admin' })
        .map(({ verb, objectRef }) => `${verb} ${objectRef?.resource}`),
    )
    expect(own.sort()).toEqual([`create ${CLAIM.plural}`, `delete ${CLAIM.plural}`, 'get pods'])
  })
})
