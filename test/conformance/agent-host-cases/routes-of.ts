import { buildAgentHost } from '../../../runtime/agent-host/app.ts'
import { DecisionTable } from '../../../runtime/agent-host/decisions/decision-table.ts'
import { Outbox } from '../../../runtime/agent-host/outbox.ts'
import { createHostStateMachine } from '../../../runtime/agent-host/state.ts'
import { silentLog } from '../../../runtime/kit/log.ts'

export interface Route {
  readonly method: string
  /** The registered path with its parameters. */
  readonly name: string
  /** A path that matches the route. */
  readonly path: string
}

/**
 * Every route that AgentHost registers, with its parameters filled in. Collected from the code, so that none is
 * missing.
 */
export async function routesOf(): Promise<Route[]> {
  const routes: Route[] = []
  const app = buildAgentHost({
    machine: createHostStateMachine(),
    outbox: new Outbox({ maxEvents: 1, maxBytes: 1 }),
    decisions: new DecisionTable({ timeoutMs: 1 }),
    log: silentLog,
    identityTokenFile: '/nowhere',
    ticket: { jwksFile: '/nowhere', instanceId: 'none', now: () => new Date() },
    setUp: () => Promise.reject(new Error('nobody is configured here')),
  })
  app.addHook('onRoute', ({ method, url }) => {
    const path = url
      .replace(':taskId(^[^:]+)', 't1')
      .replaceAll('::', ':')
      .replace(':id', 'c1')
      .replace('*', 'a.txt')
    for (const each of [method].flat()) routes.push({ method: each, name: `${each} ${url}`, path })
  })
  await app.ready()
  await app.close()
  return routes
}
