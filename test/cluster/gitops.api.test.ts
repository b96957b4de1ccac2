import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import type { PlanStep } from '../../contracts/agents.ts'
import type { RunEnvelope, RunEvent } from '../../contracts/events.ts'
import type { KubeObject } from '../../devcluster/client/kube-object.ts'
import { auditLogPath } from '../../devcluster/control-plane/api-server.ts'
import { whyNoNodes } from '../../devcluster/host/privileges.ts'
import { readState } from '../../devcluster/host/run-folder.ts'
import { waitUntil } from '../../devcluster/host/wait-until.ts'
import { CONTROL_PLANE, SANDBOXES } from '../../devcluster/service/names.ts'
import type { Client } from '../../runtime/client/client.ts'
import { type AuditEvent, createAuditLog } from './helpers/audit-log.ts'
import { API_ACCOUNT, type DeployedApi, deployApi, type Replica } from './helpers/deployed-api.ts'

const noNodes = whyNoNodes()
const RUN_MS = 90_000
const GONE_MS = 60_000
/** A replica that was killed is replaced in its runs within this. */
const DEPLOY_MS = 420_000

const shell = (command: string): PlanStep => ({ kind: 'tool', tool: 'run_command', arguments: { command } })
const say = (text: string): PlanStep => ({ kind: 'say', text })
type Owner = { readonly kind: string; readonly uid: string }
/** An object with what explains why it is still there: its marks for deletion and its state. */
const describeLeft = ({ kind, metadata, ...rest }: KubeObject): string =>
  JSON.stringify([
    kind,
    metadata.name,
    metadata.deletionTimestamp,
    metadata.finalizers,
    rest['status']?.phase,
  ])
const print = (text: string) => process.stderr.write(`${text}\n`)

describe.skipIf(noNodes !== undefined)(
  `the API in its own cluster${noNodes ? ` (skipped: ${noNodes})` : ''}`,
  () => {
    let api: DeployedApi

    beforeAll(async () => {
      api = await deployApi()
    }, DEPLOY_MS)
    afterAll(() => api?.stop())
    afterEach(async ({ task }) => {
      if (task.result?.state === 'fail') print(await api.why())
    })

    const audited = (query: object = {}): AuditEvent[] =>
      createAuditLog(auditLogPath(api.rig.cluster.folder)).events({ user: API_ACCOUNT, ...query })

    const startRun = (client: Client, steps: PlanStep[][], interactive = false) =>
      client.startRun({
        task: 'see where it runs',
        workspace: { kind: 'empty' },
        agent: { kind: 'scripted', plan: { turns: steps } },
        interactive,
      })

    /** Returns all events of a run up to its end, and calls `on` with each event. */
    async function follow(
      client: Client,
      id: string,
      on: (event: RunEvent) => unknown = () => undefined,
    ): Promise<RunEnvelope[]> {
      const seen: RunEnvelope[] = []
      for await (const envelope of client.streamEvents(id, { signal: AbortSignal.timeout(RUN_MS) })) {
        seen.push(envelope)
        await on(envelope.event)
      }
      expect(seen.map(({ sequence }) => sequence)).toEqual(seen.map((_, index) => index + 1))
      return seen
    }
    const dataOf = <T extends RunEvent['type']>(events: readonly RunEnvelope[], type: T) =>
      events.flatMap(({ event }) =>
        event.type === type ? [event.data as Extract<RunEvent, { type: T }>['data']] : [],
      )
    const told = (events: readonly RunEnvelope[]) =>
      events.map(({ sequence, at, event }) => `${sequence} ${at} ${JSON.stringify(event)}`).join('\n')
    const outputOf = (events: readonly RunEnvelope[]) =>
      dataOf(events, 'command.output')
        .map(({ chunk }) => chunk)
        .join('')

    async function twoReplicas(): Promise<[Replica, Replica]> {
      return waitUntil({ what: 'two replicas', timeoutMs: RUN_MS, everyMs: 250 }, async () => {
        const [first, second] = await api.replicas()
        return first && second ? [first, second] : undefined
      })
    }
    const untilEvent = async (client: Client, id: string, type: RunEvent['type']) => {
      const seen: RunEnvelope[] = []
      for await (const envelope of client.streamEvents(id, { signal: AbortSignal.timeout(RUN_MS) })) {
        seen.push(envelope)
        if (envelope.event.type === type) return
      }
      throw new Error(`the run ended without ${type}:\n${told(seen)}`)
    }
    /** Waits until there is no claim, and no Sandbox or pod that is not a warm pool's. */
    async function nothingLeft(): Promise<void> {
      const claims = { apiVersion: 'extensions.agents.x-k8s.io/v1beta1', plural: 'sandboxclaims' }
      const sandboxes = { apiVersion: 'agents.x-k8s.io/v1beta1', plural: 'sandboxes' }
      const list = async (path: { apiVersion: string; plural: string }) =>
        (await api.rig.client.list({ ...path, namespace: SANDBOXES })).items
      const ownerOf = ({ metadata }: KubeObject) => metadata['ownerReferences']?.[0] as Owner | undefined
      await waitUntil({ what: 'nothing to be left', timeoutMs: GONE_MS, everyMs: 250 }, async () => {
        const [pods, boxes] = [await list({ apiVersion: 'v1', plural: 'pods' }), await list(sandboxes)]
        const warm = boxes.filter((box) => ownerOf(box)?.kind === 'SandboxWarmPool')
        const ofWarm = (pod: KubeObject) => warm.some(({ metadata }) => metadata.uid === ownerOf(pod)?.uid)
        const left = [
          ...(await list(claims)),
          ...boxes.filter((box) => !warm.includes(box)),
          ...pods.filter((pod) => !ofWarm(pod)),
        ]
        if (left.length > 0) throw new Error(`left: ${left.map(describeLeft).join(' ')}`)
        return warm.length > 0
      })
    }

    it('serves with two replicas under the permissions, policies and limits of the tree', async () => {
      const pods = await api.pods()

      expect(pods).toHaveLength(2)
      expect(pods.map((pod) => pod['spec'].serviceAccountName)).toEqual(Array(2).fill('agentweaver-api'))
      expect(pods.map((pod) => pod['status'].containerStatuses[0].restartCount)).toEqual([0, 0])
      print(`API: ready ${pods.map(secondsToReady).join(' s, ')} s after its pod was made`)
    })

    it('runs in its own warm pod, through the Service, with three requests', async () => {
      await api.waitForPools()
      const started = performance.now()

      const { id } = await startRun(api.service, [[shell('id -u; pwd'), say('done')]])
      const events = await follow(api.service, id)

      const [bound] = dataOf(events, 'sandbox.execution_pod.bound')
      expect(bound).toMatchObject({ launch: 'warm' })
      expect(outputOf(events)).toBe('1000\n/workspace\n')
      expect(await api.service.readRun(id)).toMatchObject({ state: 'succeeded' })
      const asked = [bound?.claimName, bound?.podName].flatMap((name) =>
        audited({ name, namespace: SANDBOXES }).map(
          ({ verb, objectRef }) => `${verb} ${objectRef?.resource}`,
        ),
      )
      expect(asked.sort()).toEqual(['create sandboxclaims', 'delete sandboxclaims', 'get pods'])
      print(
        `run: bound in ${bound?.bindMs.toFixed(0)} ms, ended after ${(performance.now() - started).toFixed(0)} ms`,
      )
      await nothingLeft()
    })

    it('streams, approves and continues a run of one replica through the other', async () => {
      await api.waitForPools()
      const [a, b] = await twoReplicas()
      const turns = [[shell('mkdir build && rm -rf build && echo removed')], [shell('echo again')]]

      const { id } = await startRun(a.client, turns, true)
      const events = await follow(b.client, id, async (event) => {
        if (event.type === 'shell.approval_required') {
          const { commandHash } = event.data
          await b.client.approveShell(id, { commandHash, scope: 'once' })
        }
        if (event.type === 'turn.ended' && event.data.state === 'completed')
          await b.client.startTurn(id, { prompt: 'go on', final: true }).catch(() => undefined)
      })

      expect(dataOf(events, 'shell.approved')).toHaveLength(1)
      expect(outputOf(events), told(events)).toBe('removed\nagain\n')
      expect(await a.client.readRun(id)).toMatchObject({ state: 'succeeded' })
    })

    it('cancels a run of one replica through the other', async () => {
      await api.waitForPools()
      const [a, b] = await twoReplicas()
      const { id } = await startRun(a.client, [[{ kind: 'wait', ms: 60_000 }]])
      await untilEvent(b.client, id, 'run.started')

      const started = performance.now()
      const cancelled = await b.client.cancel(id)
      print(`cancel: answered after ${Math.round(performance.now() - started)} ms`)
      await follow(b.client, id)

      expect(cancelled.id).toBe(id)
      expect(await a.client.readRun(id)).toMatchObject({ state: 'cancelled' })
      await nothingLeft()
    })

    it('is suspended through another replica, and continues through it, with the first replica gone', async () => {
      await api.waitForPools()
      const [a, b] = await twoReplicas()
      const { id } = await startRun(a.client, [
        [shell('mkdir build; echo kept > notes'), shell('rm -rf build && cat notes')],
      ])
      await untilEvent(b.client, id, 'shell.approval_required')

      const suspended = await b.client.suspend(id)
      await nothingLeft()
      await api.rig.client.delete(podPath(a.name))
      const { items } = await b.client.listApprovals(id)
      await b.client.approveShell(id, { requestId: items[0]?.requestId ?? '', scope: 'once' })
      const events = await follow(b.client, id)

      expect(suspended.state).toBe('suspended')
      expect(outputOf(events), told(events)).toBe('kept\n')
      expect(dataOf(events, 'run.resumed')).toEqual([{ generation: 2 }])
      await nothingLeft()
    })

    it('serves commands and files of a sandbox of one replica through the other', async () => {
      await api.waitForPools()
      const [a, b] = await twoReplicas()
      const { id } = await a.client.createSandbox({ workspace: { kind: 'empty' } })

      const output: string[] = []
      for await (const { event } of b.client.runCommand(id, { command: 'echo hello | tee file; exit 3' }))
        if (event.type === 'command.output') output.push(event.data.chunk)
      const file = await b.client.readFile(id, { path: 'file' })
      await b.client.destroySandbox(id)

      expect(output.join('')).toBe('hello\n')
      expect(Buffer.from(file).toString('utf8')).toBe('hello\n')
      await nothingLeft()
    })

    it('continues a run whose replica was killed, from its next event, in the same pod', async () => {
      await api.waitForPools()
      const [a, b] = await twoReplicas()
      const plan = [
        [shell('echo one'), shell('mkdir build && rm -rf build && echo two'), shell('echo three')],
      ]
      const { id } = await startRun(a.client, plan)
      await untilEvent(b.client, id, 'shell.approval_required')

      await api.kill(a)
      const killed = performance.now()
      const [pending] = (await b.client.listApprovals(id)).items
      await b.client.approveShell(id, { requestId: pending?.requestId ?? '', scope: 'once' })
      const events = await follow(b.client, id)

      print(
        `takeover: the run ended ${((performance.now() - killed) / 1000).toFixed(1)} s after its replica was killed`,
      )
      expect(outputOf(events), told(events)).toBe('one\ntwo\nthree\n')
      expect(dataOf(events, 'sandbox.execution_pod.bound')).toHaveLength(1)
      expect(await b.client.readRun(id)).toMatchObject({ state: 'succeeded' })
      await nothingLeft()
    })

    it('hands its runs over when it is stopped', async () => {
      await api.waitForPools()
      const [a, b] = await twoReplicas()
      const { id } = await startRun(a.client, [[shell('sleep 20; echo slept')]])
      await untilEvent(b.client, id, 'run.started')

      await api.rig.client.delete({ ...podPath(a.name) })
      const events = await follow(b.client, id)

      expect(outputOf(events)).toBe('slept\n')
      expect(dataOf(events, 'sandbox.execution_pod.bound')).toHaveLength(1)
      expect(await b.client.readRun(id)).toMatchObject({ state: 'succeeded' })
      await nothingLeft()
    })

    it('is restarted one replica after the other, and no run fails and no client breaks', async () => {
      await api.waitForPools()
      const before = (await api.replicas()).map(({ uid }) => uid)
      const plans = [
        [[shell('sleep 15'), shell('sleep 15'), shell('sleep 15; echo done')]],
        [[shell('for i in $(seq 20); do echo line $i; sleep 1; done'), shell('sleep 20; echo done')]],
        [[shell('mkdir build && rm -rf build && echo done')]],
      ]
      const runs = await Promise.all(plans.map((plan) => startRun(api.service, plan)))
      const streams = runs.map(({ id }) => follow(api.service, id))
      const asks = runs[2]!.id
      await untilEvent(api.service, asks, 'shell.approval_required')
      const deployment = ['--namespace', CONTROL_PLANE, 'deployment/agentweaver-api']

      const restart = await api.rig.kubectl('rollout', 'restart', ...deployment)
      const status = await api.rig.kubectl('rollout', 'status', '--timeout', '300s', ...deployment)
      const [pending] = (await api.service.listApprovals(asks)).items
      await api.service.approveShell(asks, { requestId: pending?.requestId ?? '', scope: 'once' })
      const events = await Promise.all(streams)

      expect(
        [restart, status].map(({ code }) => code),
        status.output,
      ).toEqual([0, 0])
      expect((await twoReplicas()).filter(({ uid }) => before.includes(uid))).toEqual([])
      for (const [index, { id }] of runs.entries()) {
        expect(outputOf(events[index]!), told(events[index]!)).toMatch(/done\n$/)
        expect(await api.service.readRun(id)).toMatchObject({ state: 'succeeded' })
      }
      await nothingLeft()
    })

    it('reports sandbox_lost when three pods of a run are killed, and leaves nothing', async () => {
      await api.waitForPools()
      const { id } = await startRun(api.service, [[{ kind: 'wait', ms: 60_000 }]])
      const events = await follow(api.service, id, async (event) => {
        if (event.type !== 'sandbox.execution_pod.bound') return
        const path = { apiVersion: 'v1', plural: 'pods', namespace: SANDBOXES, name: event.data.podName }
        await api.rig.client.delete(path, { gracePeriodSeconds: 0 })
      })

      expect(dataOf(events, 'run.failed')[0]).toMatchObject({ code: 'sandbox_lost' })
      await nothingLeft()
    })

    it('checks by itself if a slow claim deletion has finished', async () => {
      await api.waitForPools()
      const { id } = await startRun(api.service, [[{ kind: 'wait', ms: 60_000 }]])
      await untilEvent(api.service, id, 'run.started')
      const looks = () => audited({ verb: 'get', resource: 'sandboxclaims', namespace: SANDBOXES }).length
      const before = looks()

      // Suspends the garbage collector, which would delete the objects of a claim.
      const collector = readState(api.rig.cluster.folder)?.processes.find(
        ({ name }) => name === 'kube-controller-manager',
      )
      const pid = collector?.pid ?? Number.NaN
      process.kill(pid, 'SIGSTOP')
      const cancelled = api.service.cancel(id)
      try {
        await waitUntil({ what: 'a look', timeoutMs: RUN_MS, everyMs: 250 }, () => looks() > before)
      } finally {
        process.kill(pid, 'SIGCONT')
      }

      expect((await cancelled).id).toBe(id)
      await nothingLeft()
    })

    it('serves metrics on a separate port, to the monitoring only', async () => {
      const [{ ip }] = await twoReplicas()

      const seen = await api.ask('monitoring', `http://${ip}:9090/metrics`)
      const atTheDoor = await api.ask('gateway', `http://${ip}:8080/metrics`)

      const [, rss = ''] = /^process_resident_memory_bytes (\d+)$/m.exec(seen.text) ?? []
      print(`API: ${(Number(rss) / 1_048_576).toFixed(0)} MiB resident`)
      expect(seen.status).toBe(200)
      expect(seen.text).toMatch(/^agentweaver_runs\{state="succeeded"\} \d+$/m)
      expect(atTheDoor.status).toBe(404)
      await expect(api.ask('gateway', `http://${ip}:9090/metrics`)).rejects.toThrow()
    })

    it('used every right that the tree grants, was never refused, and asked for nothing else', () => {
      const granted = roleRules().flatMap(({ resources, verbs }) =>
        resources.flatMap((resource) => verbs.map((verb) => `${verb} ${resource}`)),
      )

      const own = audited().filter(({ objectRef }) => objectRef?.resource !== undefined)
      const used = new Map<string, number>()
      for (const { verb, objectRef } of own) {
        const right = `${verb} ${objectRef?.resource}${objectRef?.subresource ? `/${objectRef.subresource}` : ''}`
        used.set(right, (used.get(right) ?? 0) + 1)
      }

      print(`rights used: ${[...used].map(([right, count]) => `${right} ${count}`).join(', ')}`)
      expect([...used.keys()].toSorted()).toEqual(granted.toSorted())
      expect(own.filter(({ objectRef }) => objectRef?.namespace !== SANDBOXES)).toEqual([])
      expect(audited().filter(({ responseStatus }) => responseStatus?.code === 403)).toEqual([])
    })
  },
)

/** The rules of every Role in the rendered tree of all apps. */
function roleRules(): { resources: string[]; verbs: string[] }[] {
  const tree = join(import.meta.dirname, '../../gitops/local')
  const files = readdirSync(tree, { recursive: true, encoding: 'utf8' })
  return files
    .filter((file) => /(?:^|\/)Role\.[^/]+\.yaml$/.test(file))
    .flatMap((file) => parse(readFileSync(join(tree, file), 'utf8')).rules)
}

const podPath = (name: string) => ({ apiVersion: 'v1', plural: 'pods', namespace: 'agentweaver', name })

/** Whole seconds, the resolution of the API server. */
function secondsToReady(pod: KubeObject): number {
  const ready = pod['status'].conditions.find(({ type }: { type: string }) => type === 'Ready')
  return (Date.parse(ready.lastTransitionTime) - Date.parse(String(pod.metadata['creationTimestamp']))) / 1000
}
