import { expect, it, onTestFinished } from 'vitest'
import { AGENT_HOST_ROUTES } from '../../contracts/routes.ts'
import { buildAgentHost } from '../../runtime/agent-host/app.ts'
import { DecisionTable } from '../../runtime/agent-host/decisions/decision-table.ts'
import { Outbox } from '../../runtime/agent-host/outbox.ts'
import type { RunSession } from '../../runtime/agent-host/session/run-session.ts'
import { createHostStateMachine } from '../../runtime/agent-host/state.ts'
import type { RunnerLink } from '../../runtime/agent-host/toolbox/runner-link.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { TOKEN } from './host-rig.ts'

const toolbox = {} as RunnerLink
const session = { toolbox } as RunSession
const taken = { runId: 'run-1', generation: 1, turnBearerToken: TOKEN }

function aHost() {
  const machine = createHostStateMachine()
  const app = buildAgentHost({
    machine,
    outbox: new Outbox({ maxEvents: 1, maxBytes: 1 }),
    decisions: new DecisionTable({ timeoutMs: 1 }),
    log: silentLog,
    ticket: { jwksFile: '/nowhere', instanceId: 'none', now: () => new Date() },
    setUp: () => Promise.reject(new Error('nobody is configured here')),
  })
  onTestFinished(() => app.close())
  const health = async () => {
    const { statusCode, body } = await app.inject(AGENT_HOST_ROUTES.healthz)
    return [statusCode, JSON.parse(body).state]
  }
  return { machine, app, health }
}

it('reports leaving, and keeps this state after a later failure', async () => {
  const { machine, health } = aHost()
  machine.standby(toolbox)
  machine.take(taken)
  machine.ready(session)
  expect(await health()).toEqual([200, 'ready'])

  machine.leave('the runner ended')
  machine.fail('the setup failed')

  expect(await health()).toEqual([503, 'leaving'])
})

it('reports sandbox_lost to callers with the bearer token only', async () => {
  const { machine, app } = aHost()
  machine.standby(toolbox)
  machine.take(taken)
  machine.ready(session)
  machine.leave('the runner ended')
  const ask = (token: string) =>
    app.inject({ url: AGENT_HOST_ROUTES.session, headers: { authorization: `Bearer ${token}` } })

  expect((await ask(TOKEN)).json()).toMatchObject({ code: 'sandbox_lost', detail: 'the runner ended' })
  expect((await ask('another')).statusCode).toBe(401)
})

it('does not get ready any more when its setup ends after that', () => {
  const { machine } = aHost()
  machine.standby(toolbox)
  machine.take(taken)

  machine.leave('the runner ended')

  expect(() => machine.ready(session)).toThrow(expect.objectContaining({ code: 'sandbox_lost' }))
  expect(machine.take(taken)).toBeUndefined()
})
