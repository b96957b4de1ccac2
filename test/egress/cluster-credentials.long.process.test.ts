import { describe, expect, it } from 'vitest'
import { EGRESS_CONTROL_ROUTES } from '../../contracts/routes.ts'
import { until } from '../helpers/until.ts'
import { givenRun, type Rig, rig } from './cluster-credential-rig.ts'
import { ask, brokerPathIn, CANARY, open, tokenFor } from './cluster-rig.ts'

const wanted = (runId: string, changes: object = {}) => ({
  runId,
  generation: 1,
  credential: 'token',
  ...changes,
})

/** Asks the API for a value with one of the tokens of the rig. */
async function askFor({ control }: Pick<Rig, 'control'>, token: string, body: object) {
  const { statusCode, payload } = await control.app.inject({
    method: 'POST',
    url: EGRESS_CONTROL_ROUTES.credentials,
    headers: { authorization: `Bearer ${token}` },
    payload: body,
  })
  return { status: statusCode, hasValue: payload.includes(CANARY) }
}

describe('a command of a pod', () => {
  it('uses a credential that neither the sandbox nor the first process of the proxy holds', async () => {
    const all = await rig((request, response) =>
      response.end(`encoding ${request.headers['accept-encoding']}`),
    )
    const { runId, get, placeholder } = await givenRun(all)
    const { store, control, authorizations, reads } = all

    const answers = [await get(), await get()]

    for (const answer of answers) expect(answer).toMatch(/^HTTP\/1\.1 200 [\s\S]*encoding identity/)
    expect(authorizations).toEqual([`Bearer ${CANARY}`, `Bearer ${CANARY}`])
    expect(placeholder).toHaveLength(CANARY.length)
    // Kept for minutes.
    expect(reads).toEqual(['token'])
    const events = async () => (await store.readEvents(runId, 0, 100)).map(({ event }) => event)
    await until('the use is an event', async () =>
      (await events()).some((event) => event.type === 'egress.credential_used'),
    )
    expect(JSON.stringify([await events(), control.lines])).not.toContain(CANARY)
  })

  it('gets no other path, and no other host for its credential or for the credential of another run', async () => {
    const all = await rig()
    const { get } = await givenRun(all)
    const other = await givenRun(all)

    expect(await get(undefined, '/b')).toMatch(/^HTTP\/1\.1 403 .*the path/)
    expect(await get('Bearer of-the-agent')).toMatch(/^HTTP\/1\.1 403 .*accepts no other credential/)
    expect(await get(`Bearer ${other.placeholder}`)).toMatch(/^HTTP\/1\.1 403 .*accepts no other credential/)
    expect(all.authorizations).toEqual([])
    expect(all.reads).toEqual([])
    // With its own placeholder, the same request succeeds.
    expect(await get()).toMatch(/^HTTP\/1\.1 200 /)
  })

  it('cannot make the host show the credential', async () => {
    const all = await rig((_request, response) => response.end(`before ${CANARY}`))
    const { get } = await givenRun(all)

    expect(await get()).not.toContain(CANARY.slice(4))
    expect(all.authorizations).toEqual([`Bearer ${CANARY}`])
  })

  it('gets an error if the process with the credentials is gone', async () => {
    const all = await rig()
    const { get } = await givenRun(all)
    expect(await get()).toMatch(/^HTTP\/1\.1 200 /)

    await all.broker.drain()

    expect(await get()).toMatch(/^HTTP\/1\.1 50[23] .*credential/s)
  })
})

describe('the process that inserts credentials', () => {
  it('serves only connections with the token and the address of a listed sandbox', async () => {
    const all = await rig()
    const { runId, token, get } = await givenRun(all)
    expect(await get()).toMatch(/^HTTP\/1\.1 200 /)
    const connect = (...headers: string[]) =>
      ask(
        brokerPathIn(all.folder),
        [`CONNECT ${all.target} HTTP/1.1`, `Host: ${all.target}`, ...headers, '', ''].join('\r\n'),
      )
    const from = (address: string) => `Agentweaver-Client: ${address}`
    const otherPod = { uid: 'pod-2', addresses: ['127.0.0.1'] }
    const of = async (about: Partial<Parameters<typeof tokenFor>[0]>) =>
      `Proxy-Authorization: Bearer ${await tokenFor({ keys: all.keys, runId, ...about })}`

    expect(await connect()).toMatch(/^HTTP\/1\.1 407 /)
    expect(await connect(`Proxy-Authorization: Bearer ${token}`)).toMatch(
      /^HTTP\/1\.1 403 .*another address/s,
    )
    expect(await connect(`Proxy-Authorization: Bearer ${token}`, from('10.9.9.9'))).toMatch(/another address/)
    expect(await connect(await of({ generation: 2 }), from('127.0.0.1'))).toMatch(/^HTTP\/1\.1 403 /)
    expect(await connect(await of({ pod: otherPod }), from('127.0.0.1'))).toMatch(/^HTTP\/1\.1 403 /)
    // From its own address, with the right generation and pod, it may connect.
    const { head, socket } = await open(
      brokerPathIn(all.folder),
      all.target,
      `Bearer ${token}\r\n${from('127.0.0.1')}`,
    )
    socket.destroy()
    expect(head).toMatch(/^HTTP\/1\.1 200 /)
  })

  it('forgets the sandbox when its run has ended', async () => {
    const all = await rig()
    const { runId, get } = await givenRun(all)
    expect(await get()).toMatch(/^HTTP\/1\.1 200 /)

    await all.store.closeNetwork({ runId, generation: 1 })
    all.control.hub.changed()

    // A connection of this moment may be cut.
    const answer = () => get().catch(() => 'HTTP/1.1 200')
    await until('the sandbox is not listed', async () => (await answer()).includes('no network access'))
    expect(await askFor(all, 'credentials-token', wanted(runId))).toEqual({ status: 403, hasValue: false })
  })

  it('opens no connection without a lease', async () => {
    const all = await rig()
    const { get } = await givenRun(all)
    expect(await get()).toMatch(/^HTTP\/1\.1 200 /)

    all.broker.lease.end()

    expect(await get()).toMatch(/^HTTP\/1\.1 503 .*cannot reach the service/s)
  })
})

describe('the route for the values of credentials', () => {
  it('gives a value to the process that inserts credentials, and to no other caller', async () => {
    const all = await rig()
    const { runId, token } = await givenRun(all)
    const status = async (of: string) => await askFor(all, of, wanted(runId))

    expect({
      firstProcess: await status('proxy-token'),
      sandbox: await status('sandbox-token-for-credentials'),
      sandboxForAnotherPort: await status('sandbox-token-for-control'),
      proxyForTheApi: await status('proxy-token-for-api'),
      tokenOfTheRun: await status(token),
      nobody: await status(''),
    }).toEqual({
      firstProcess: { status: 403, hasValue: false },
      sandbox: { status: 403, hasValue: false },
      sandboxForAnotherPort: { status: 403, hasValue: false },
      proxyForTheApi: { status: 401, hasValue: false },
      tokenOfTheRun: { status: 401, hasValue: false },
      nobody: { status: 401, hasValue: false },
    })
    expect(all.reads).toEqual([])
    // The container that inserts credentials gets the value.
    expect(await status('credentials-token')).toEqual({ status: 200, hasValue: true })
  })

  it('gives only the credentials that the destinations of a live sandbox name', async () => {
    const all = await rig()
    const { runId } = await givenRun(all)
    const status = async (changes: object) =>
      (await askFor(all, 'credentials-token', wanted(runId, changes))).status

    expect(await status({ credential: 'other' })).toBe(403)
    expect(await status({ generation: 2 })).toBe(403)
    expect(await status({ runId: 'run_other' })).toBe(403)
    expect(await status({ more: true })).toBe(400)
    expect(all.reads).toEqual([])
    expect(await status({})).toBe(200)
    await all.store.transaction((tx) => tx.changeRun(runId, { generation: 2 }))
    expect(await status({})).toBe(403)
  })

  it('gives nothing while a person has taken the network from the run', async () => {
    const all = await rig()
    const { runId } = await givenRun(all)
    const status = async () => (await askFor(all, 'credentials-token', wanted(runId))).status
    expect(await status()).toBe(200)

    const taken = { level: 'no-network', reason: 'an incident', by: 'root', role: 'operator' } as const
    const scope = { kind: 'run', id: runId } as const
    await all.store.transaction((tx) =>
      tx.writeRestriction({ ...taken, scope, owner: 'ada', at: new Date().toISOString() }),
    )
    await all.control.restrictions.refresh()

    expect(await status()).toBe(403)
  })

  it('limits how many values are read in a second', async () => {
    const all = await rig()
    const { runId } = await givenRun(all)

    const answers = await Promise.all(
      Array.from({ length: 160 }, () => askFor(all, 'credentials-token', wanted(runId))),
    )

    const statuses = answers.map(({ status }) => status)
    expect(statuses).toContain(200)
    expect(statuses).toContain(429)
  })

  it('is nowhere in the state of the first process, and the placeholders are not either', async () => {
    const all = await rig()
    const { runId, placeholder } = await givenRun(all)
    const states: string[] = []
    const others: string[] = []
    const unsubscribe = all.control.hub.subscribe(({ proxy, credentials }) => {
      states.push(JSON.stringify(proxy))
      others.push(JSON.stringify(credentials))
    })
    await until('a state lists the run', () => states.some((state) => state.includes(runId)))
    unsubscribe()

    const state = states.find((one) => one.includes(runId)) ?? ''
    expect(state).not.toContain(placeholder)
    expect(state).not.toContain('PRIVATE KEY')
    // The state for the process that inserts credentials has both.
    const other = others.find((one) => one.includes(runId)) ?? ''
    expect(other).toContain(placeholder)
    expect(other).toContain('PRIVATE KEY')
    expect(other).not.toContain(CANARY)
  })
})
