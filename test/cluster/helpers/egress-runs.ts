import type { RequestedAgent } from '../../../contracts/agents.ts'
import type { CreateSandboxInput, StartRun } from '../../../contracts/api.ts'
import type { RunEnvelope, RunEvent } from '../../../contracts/events.ts'
import { waitUntil } from '../../../devcluster/host/wait-until.ts'
import { SANDBOXES } from '../../../devcluster/service/names.ts'
import type { DeployedApi } from './deployed-api.ts'

export const READY_MS = 240_000
export const PODS = { apiVersion: 'v1', plural: 'pods', namespace: SANDBOXES }

/** Starts runs and commands in a deployment, and reads what they did. */
export function egressRuns(api: () => DeployedApi, urlOfGit: string) {
  /** Runs a command and returns its output. Calls `onOutput` with all output so far. */
  async function outputOf(
    command: string,
    id: string,
    onOutput: (output: string) => unknown = () => undefined,
  ): Promise<string> {
    let output = ''
    const request = { command, network: true, timeoutMs: 60_000 }
    for await (const { event } of api().service.runCommand(id, request)) {
      if (event.type === 'command.exited') break
      if (event.type !== 'command.output') continue
      output += event.data.chunk
      await onOutput(output)
    }
    return output.trim()
  }
  const ended = <T extends { readonly state: string }>(read: () => Promise<T>) =>
    waitUntil({ what: 'the end of the run', timeoutMs: READY_MS, everyMs: 500 }, async () => {
      const run = await read()
      return ['succeeded', 'failed', 'cancelled'].includes(run.state) ? run : undefined
    })
  /** A sandbox with network access, when it works. */
  async function startSandbox(workspace: CreateSandboxInput['workspace'] = { kind: 'empty' }) {
    const created = await api().service.createSandbox({ workspace, policy: { network_enabled: true } })
    await waitUntil({ what: 'a sandbox', timeoutMs: READY_MS, everyMs: 500 }, async () =>
      ['running', 'waiting'].includes((await api().service.readSandbox(created.id)).state) ? true : undefined,
    )
    return created
  }
  async function podOf(id: string) {
    const { items } = await api().service.readEvents(id, { limit: 1000 })
    const name = (items as RunEnvelope[]).flatMap(({ event }) =>
      event.type === 'sandbox.execution_pod.bound' ? [event.data.podName] : [],
    )[0]
    return api().rig.client.get({ ...PODS, name: name ?? '' })
  }
  const startRun = (agent: RequestedAgent, settings: StartRun['policy'] = {}) =>
    api().service.startRun({
      task: 'Install the dependencies, run the tests, add a line to README and push it',
      workspace: { kind: 'git', url: urlOfGit },
      agent,
      policy: { network_enabled: true, ...settings },
    })
  async function runOf(agent: RequestedAgent, settings: StartRun['policy'] = {}) {
    const { id } = await startRun(agent, settings)
    const { state } = await ended(() => api().service.readRun(id))
    const { items } = await api().service.readEvents(id, { limit: 1000 })
    return { id, state, items: items as RunEnvelope[] }
  }
  const denied = (host: string, id: string): Promise<Extract<RunEvent, { type: 'egress.denied' }>['data']> =>
    waitUntil({ what: `a report about ${host}`, timeoutMs: 90_000, everyMs: 500 }, async () => {
      const { items } = await api().service.readEvents(id, { limit: 1000 })
      const found = (items as RunEnvelope[]).flatMap(({ event }) =>
        event.type === 'egress.denied' && event.data.host === host ? [event.data] : [],
      )
      return found[0]
    })

  return { outputOf, ended, startSandbox, podOf, startRun, runOf, denied }
}
