import { readdirSync, readFileSync } from 'node:fs'
import { afterEach, describe, expect, it } from 'vitest'
import { CONTAINERS } from '../../contracts/names.ts'
import { SandboxSettings } from '../../contracts/policy.ts'
import type { SandboxPodParts } from '../../devcluster/client/sandbox-pod-spec.ts'
import { waitUntil } from '../../devcluster/host/wait-until.ts'
import { keyPair } from '../agent-host/host-rig.ts'
import { execute, type Outcome } from '../conformance/executor-cases/subject.ts'
import { hasFeature } from './helpers/features.ts'
import { useNamespace } from './helpers/namespace.ts'
import { createPodExecutor } from './helpers/pod-executor.ts'
import { execInPod } from './helpers/pods.ts'
import { type SandboxPod, startSandboxPod, writeExecutorKeys } from './helpers/sandbox-pod.ts'

const ISOLATION = {
  backend: 'kubernetes-sandbox-claim',
  isRealIsolation: true,
  enforcesEgress: true,
  reason: 'a pod',
} as const
const END_MS = 20_000
/** The kubelet updates a ConfigMap in a pod when it syncs the pod. A changed annotation triggers a sync. */
const SYNC_MS = 60_000

const attempt = (path: string, init: RequestInit = {}) =>
  fetch(path, init).then(
    ({ status }) => status,
    () => 'refused',
  )

describe.each(['runc', 'gvisor'])('the life of a sandbox pod under %s', (runtime) => {
  const isThere = hasFeature(runtime === 'runc' ? 'real node' : 'gvisor')
  const parts = runtime === 'runc' ? {} : { runtimeClassName: runtime }

  describe.skipIf(!isThere)('ends and turns', () => {
    const space = useNamespace(`life-${runtime}`)
    const open: SandboxPod[] = []
    afterEach(async () => {
      for (const { client } of open.splice(0)) await client.close()
    })

    async function aPod(more: SandboxPodParts = {}) {
      const pod = await startSandboxPod(space, space.unique('life'), { ...parts, ...more })
      open.push(pod)
      const settings = SandboxSettings.parse({ network_enabled: true })
      return { ...pod, ready: () => pod.configure({ governance: { version: '1', settings } }) }
    }
    const path = (name: string) => ({ apiVersion: 'v1', plural: 'pods', namespace: space.name, name })
    const untilOver = (name: string) =>
      waitUntil({ what: `pod ${name} to be over`, timeoutMs: END_MS, everyMs: 50 }, async () => {
        const { containerStatuses } = (await space.client.get(path(name)))['status']
        const containers = containerStatuses as { restartCount: number; state: object }[]
        return containers.every(({ state }) => 'terminated' in state) ? containers : undefined
      })

    const runOnline = (pod: SandboxPod, command: string) => {
      const executor = createPodExecutor(pod.client, ISOLATION)
      return execute(executor, command, { network: true }).catch(() => undefined)
    }
    const offlineRunner = `for f in /proc/[0-9]*; do [ "\${f#/proc/}" != 1 ] && grep -qs 'runner/server[.]cjs' $f/cmdline && echo \${f#/proc/}; done`
    /** Runs a script like a shell in the pod, without the restrictions on commands. */
    const runInToolbox = ({ name }: SandboxPod, script: string) =>
      execInPod(space, { name, container: CONTAINERS.toolbox }, ['/bin/sh', '-c', script])
    const ENDINGS: readonly (readonly [string, (pod: SandboxPod) => Promise<unknown>])[] = [
      ['the first runner gets SIGTERM', (pod) => runInToolbox(pod, 'kill -TERM 1')],
      ['the second runner is killed', (pod) => runInToolbox(pod, `kill -KILL $(${offlineRunner})`)],
      [
        'a command kills a thread of the second runner',
        (pod) => runOnline(pod, `ls /proc/$(${offlineRunner})/task | tail -1 | xargs kill -KILL; sleep 9`),
      ],
      [
        'every process of the toolbox that can be killed is killed',
        (pod) => runInToolbox(pod, 'kill -KILL -1'),
      ],
      [
        'AgentHost receives SIGTERM',
        ({ name }) =>
          execInPod(space, { name, container: CONTAINERS.agentHost }, [
            'node',
            '-e',
            'process.kill(1, "SIGTERM")',
          ]),
      ],
    ]

    it.each(ENDINGS)('ends permanently when %s', async (_what, end) => {
      const pod = await aPod()
      await pod.ready()

      void end(pod)

      const containers = await untilOver(pod.name)
      expect(containers).toHaveLength(2)
      expect(containers.map(({ restartCount }) => restartCount)).toEqual([0, 0])
      expect(await attempt(`${pod.baseUrl}/healthz`)).toBe('refused')
    })

    it('continues when a command kills every process that it finds', async () => {
      const pod = await aPod()
      await pod.ready()
      const executor = createPodExecutor(pod.client, ISOLATION)
      const everyone = `for f in /proc/[0-9]*; do p=\${f#/proc/}; [ $p = $$ ] || kill -KILL $p; done`
      const others = `kill -KILL $PPID; kill -TERM 1; kill -KILL -1; kill -TERM -1; ${everyone}`

      const commands = ['sleep 30 & kill -KILL $!; wait $!; exit $?', `${others}; echo there`, 'echo on']
      const outcomes: Outcome[] = []
      for (const network of [true, false])
        for (const command of commands) outcomes.push(await execute(executor, command, { network }))

      expect(outcomes.map(({ exitCode, stdout }) => exitCode || stdout)).toEqual([
        137,
        'there\n',
        'on\n',
        137,
        'there\n',
        'on\n',
      ])
    })

    it.skipIf(runtime !== 'runc')('ends permanently when the machine kills AgentHost', async () => {
      const pod = await aPod()
      await pod.ready()

      process.kill(processWith(`AGENT_HOST_INSTANCE_ID=${pod.uid}`), 'SIGKILL')

      await untilOver(pod.name)
      expect(await attempt(`${pod.baseUrl}/healthz`)).toBe('refused')
    })

    it('ends with its commands when it is deleted, without using up its grace period', async () => {
      const pod = await aPod({ terminationGracePeriodSeconds: 600 })
      await pod.ready()
      void runOnline(pod, 'trap "" TERM; echo deaf > deaf; while :; do sleep 1; done')
      await waitUntil({ what: 'the command to run', timeoutMs: END_MS }, async () => {
        const { result } = await pod.client.file(
          { op: 'read', path: 'deaf' },
          new Uint8Array(),
          AbortSignal.timeout(5_000),
        )
        return result.ok || undefined
      })
      await space.client.delete(path(pod.name))

      await waitUntil({ what: 'the pod to be gone', timeoutMs: END_MS, everyMs: 50 }, async () =>
        (await space.client.find(path(pod.name))) ? undefined : true,
      )
    })

    it('accepts new keys while it is warm, and rejects removed keys', async () => {
      const [old, next] = [keyPair(), keyPair()]
      const pod = await aPod()
      const statusWith = async (kid: string, key: ReturnType<typeof keyPair>) => {
        // The body is not a valid setup: 401 means that the ticket was rejected, 400 that the ticket was valid and the
        // body was rejected.
        const { body, ticket } = await pod.ticketFor({ runId: 'run-1' } as never, { kid, key })
        const headers = { authorization: `Bearer ${ticket}` }
        return attempt(`${pod.baseUrl}/configure`, { method: 'POST', headers, body })
      }
      const publish = async (keys: Parameters<typeof writeExecutorKeys>[1]) => {
        await writeExecutorKeys(space, keys)
        const annotations = { 'agentweaver.io/looked-at': String(Date.now()) }
        await space.client.mergePatch(path(pod.name), { metadata: { annotations } })
      }
      const untilStatus = (kid: string, key: ReturnType<typeof keyPair>, status: number) =>
        waitUntil({ what: `${kid} to be answered ${status}`, timeoutMs: SYNC_MS, everyMs: 100 }, async () =>
          (await statusWith(kid, key)) === status ? true : undefined,
        )

      await publish({ old })
      await untilStatus('old', old, 400)
      const before = await statusWith('next', next)
      await publish({ old, next })
      await untilStatus('next', next, 400)
      const during = await statusWith('old', old)
      await publish({ next })
      await untilStatus('old', old, 401)

      expect([before, during, await statusWith('next', next)]).toEqual([401, 400, 400])
    })
  })
})

/** Finds a process of this machine by an entry of its environment. */
function processWith(entry: string): number {
  const pid = readdirSync('/proc').find((name) => /^\d+$/.test(name) && environmentOf(name).includes(entry))
  if (pid === undefined) throw new Error(`no process has ${entry}`)
  return Number(pid)
}

function environmentOf(pid: string): string[] {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0')
  } catch {
    return []
  }
}
