import { once } from 'node:events'
import { expect, it } from 'vitest'
import { until } from '../../helpers/until.ts'
import { forge } from './forge.ts'
import {
  aConfiguration,
  BEARER,
  configure,
  fresh,
  type HostUnderTest,
  type Subject,
  stateOf,
} from './host.ts'
import { headOf, send } from './raw-http.ts'

const NOWHERE = '/nowhere/that/exists'

/** Sends a valid configuration and disconnects immediately, like an API that dies. */
async function configureAndLeave(subject: Subject, host: HostUnderTest): Promise<void> {
  const body = JSON.stringify(aConfiguration(host))
  const ticket = forge(subject.keys(), { instanceId: host.instanceId, runId: 'run-1', body })
  const headers = {
    authorization: `Bearer ${ticket}`,
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(body)),
  }
  const socket = await host.connect()
  socket.write(`${headOf({ method: 'POST', path: '/configure', headers })}\r\n${body}`)
  await until('the one shot is taken', async () => (await stateOf(host)) !== 'standby')
  socket.destroy()
  await once(socket, 'close')
}

export function oneShotCases(subject: Subject): void {
  it('lets exactly one of many concurrent requests win, and returns the configured run to the others', async () => {
    const host = await fresh(subject)

    const answers = await Promise.all(
      Array.from({ length: 12 }, (_, i) => configure(subject, host, { change: { runId: `run-${i}` } })),
    )

    const winners = answers.filter(({ status }) => status === 200)
    const losers = answers.filter(({ status }) => status === 409)
    expect([winners.length, losers.length]).toEqual([1, 11])
    const { runId } = (winners[0]?.json ?? {}) as { runId?: string }
    for (const { json } of losers) expect(json).toMatchObject({ runId, generation: 1 })
  })

  it('returns 409 with the configured run to a repeated configuration and to a foreign one', async () => {
    const host = await fresh(subject)
    await configureAndLeave(subject, host)

    await until('the setup ends', async () => (await stateOf(host)) === 'ready')
    const same = await configure(subject, host)
    const foreign = await configure(subject, host, { change: { runId: 'run-2' } })
    const held = { state: 'ready', runId: 'run-1', generation: 1 }

    expect([same.status, foreign.status]).toEqual([409, 409])
    expect(same.json).toEqual(held)
    expect(foreign.json).toEqual(held)
    expect(same.text + foreign.text).not.toContain(BEARER)
  })

  it('stays failed after a failed setup, and reports the reason', async () => {
    const host = await fresh(subject)

    const first = await configure(subject, host, { change: { workingDirectory: NOWHERE } })
    const second = await configure(subject, host)
    const health = await send(host, { method: 'GET', path: '/healthz' })
    const guarded = await send(host, {
      method: 'GET',
      path: '/events',
      headers: { authorization: `Bearer ${BEARER}` },
    })

    expect([first.status, first.json]).toEqual([422, expect.objectContaining({ code: 'configure_failed' })])
    expect([second.status, second.json]).toEqual([409, { state: 'failed', runId: 'run-1', generation: 1 }])
    expect([health.status, (health.json as { state: string }).state]).toEqual([503, 'failed'])
    expect(guarded.status).toBe(502)
  })

  it('fails with the reason if it has no vault to read the credential from', async () => {
    const host = await fresh(subject)
    const credential = { kind: 'keyVault', secretName: `ghtok-user--${'a'.repeat(52)}` } as const

    const { status, json, text } = await configure(subject, host, { change: { credential } })

    expect([status, json]).toEqual([422, expect.objectContaining({ code: 'credential_unavailable' })])
    expect(text).not.toContain('ghtok-user')
    expect(await stateOf(host)).toBe('failed')
  })

  it('is not configured by a malformed body, and reports every invalid field', async () => {
    const host = await fresh(subject)
    const { runId: _missing, ...rest } = aConfiguration(host)

    const missing = await configure(subject, host, {
      body: JSON.stringify({ ...rest, generation: 0, surprise: 1 }),
    })
    const escaped = await configure(subject, host, {
      change: { credential: { kind: 'keyVault', secretName: 'agentweaver-deployment-key' } },
    })

    const fields = (missing.json as { errors: { field: string }[] }).errors.map(({ field }) => field)
    expect([missing.status, escaped.status]).toEqual([400, 400])
    expect(fields).toEqual(expect.arrayContaining(['runId', 'generation', 'surprise']))
    expect(await stateOf(host)).toBe('standby')
    expect((await configure(subject, host)).status).toBe(200)
  })
}
