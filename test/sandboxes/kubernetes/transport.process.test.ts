import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Agent, request } from 'undici'
import { expect, it, onTestFinished, vi } from 'vitest'
import { createKubeApi } from '../../../runtime/sandboxes/kubernetes/client/kube-api.ts'
import type { Fault } from '../../fakes/kube/faults.ts'
import { stopTimers } from '../../helpers/stop-timers.ts'
import { until } from '../../helpers/until.ts'
import {
  aThing,
  IMPATIENT_TRANSPORT,
  plainConnection,
  QUICK_TRANSPORT,
  startKubeRig,
  THINGS,
} from './kube-rig.ts'

const signal = () => AbortSignal.timeout(60_000)

const FAULTS: readonly (readonly [string, Fault])[] = [
  ['returns 429', { kind: 'status', status: 429 }],
  ['returns 500', { kind: 'status', status: 500 }],
  ['returns 503', { kind: 'status', status: 503 }],
  ['never responds', { kind: 'silent' }],
  ['resets the connection', { kind: 'reset' }],
  ['cuts its answer', { kind: 'cut' }],
]

it.each(FAULTS)('asks again when the server %s', async (_what, fault) => {
  const rig = await startKubeRig(fault.kind === 'silent' ? IMPATIENT_TRANSPORT : QUICK_TRANSPORT)
  rig.put('there', 'x')
  rig.fake.faults.plan({ verb: 'get' }, fault, 2)

  expect(await rig.api.get(THINGS, 'there', signal())).toMatchObject({ data: 'x' })
  expect(rig.fake.count('get')).toBe(3)
})

it('waits as long as the server asks for', async () => {
  const rig = await startKubeRig()
  rig.put('there', 'x')
  rig.fake.faults.plan({ verb: 'get' }, { kind: 'status', status: 429, retryAfterSeconds: 7 })
  const waits = stopTimers()

  const asked = rig.api.get(THINGS, 'there', signal())
  await until('it waits for 7 s', () => waits().includes(7_000))
  const before = rig.fake.count('get')
  vi.advanceTimersByTime(7_000)

  expect(before).toBe(1)
  expect(await asked).toMatchObject({ data: 'x' })
})

it.each([400, 403, 404, 409, 422])('does not retry a request that was rejected with %d', async (status) => {
  const rig = await startKubeRig()
  rig.fake.faults.plan({ verb: 'create' }, { kind: 'status', status })

  await expect(rig.api.create(THINGS, aThing('new'), signal())).rejects.toMatchObject({ status })
  expect(rig.fake.count('create')).toBe(1)
})

it('waits for a slow answer within its time', async () => {
  const rig = await startKubeRig()
  rig.put('there', 'x')
  rig.fake.faults.plan({ verb: 'get' }, { kind: 'slow', ms: 150 })

  expect(await rig.api.get(THINGS, 'there', signal())).toMatchObject({ data: 'x' })
  expect(rig.fake.count('get')).toBe(1)
})

it('fails at the caller’s deadline, even if the server never responds', async () => {
  const rig = await startKubeRig()
  rig.fake.faults.plan({ verb: 'get' }, { kind: 'silent' }, 1_000)

  const asked = rig.api.get(THINGS, 'there', AbortSignal.timeout(600))

  await expect(asked).rejects.toMatchObject({ code: 'deadline_exceeded' })
})

it('reports at the deadline the error of the last attempt', async () => {
  const rig = await startKubeRig()
  rig.fake.faults.plan({ verb: 'get' }, { kind: 'status', status: 503 }, 1_000)

  const deadline = new AbortController()
  const asked = rig.api.get(THINGS, 'there', deadline.signal)
  asked.catch(() => undefined)
  await until('it was refused, and has asked again', () => rig.fake.count('get') > 1)
  deadline.abort(new DOMException('the time is over', 'TimeoutError'))

  await expect(asked).rejects.toThrow(/did not succeed before the deadline.*503/)
})

it('fails with the caller’s own reason if the caller aborts', async () => {
  const rig = await startKubeRig()
  rig.fake.faults.plan({ verb: 'get' }, { kind: 'silent' }, 1_000)
  const caller = new AbortController()
  const asked = rig.api.get(THINGS, 'there', caller.signal)

  caller.abort(new Error('the run ended'))

  await expect(asked).rejects.toThrow('the run ended')
})

it('requests a new credential once after a 401', async () => {
  const rig = await startKubeRig()
  rig.put('there', 'x')
  rig.fake.requireToken('second')
  const asked: boolean[] = []
  const connection = {
    ...plainConnection(rig.fake.url),
    authenticate: async (fresh = false) => {
      asked.push(fresh)
      return { authorization: fresh ? 'Bearer second' : 'Bearer first' }
    },
  }
  const api = createKubeApi(connection, QUICK_TRANSPORT)

  expect(await api.get(THINGS, 'there', signal())).toMatchObject({ data: 'x' })
  expect(asked).toEqual([false, true])
  rig.fake.requireToken('third')
  await expect(api.get(THINGS, 'there', signal())).rejects.toMatchObject({ status: 401 })
  await api.close()
})

/** Starts an API server that returns success for every request and counts its connections. */
async function aCountingServer() {
  let connections = 0
  const server = createServer((asked, answer) => {
    asked.resume().on('end', () => answer.setHeader('content-type', 'application/json').end('{}'))
  })
  server.on('connection', () => {
    connections += 1
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}`, connections: () => connections }
}

it('keeps its connections through claims, reads and deletions', async () => {
  const server = await aCountingServer()
  const api = createKubeApi(plainConnection(server.url), QUICK_TRANSPORT)

  for (let round = 0; round < 10; round += 1) {
    await api.create(THINGS, aThing('one'), signal())
    await api.get(THINGS, 'one', signal())
    await api.delete({ resource: THINGS, name: 'one' }, { uid: 'u', propagation: 'Background' }, signal())
  }
  await api.close()

  // A connection can be reused only shortly after its response. A faster request opens a second connection.
  expect(server.connections()).toBeLessThanOrEqual(2)
})

it('would open one for each deletion that has a precondition, as the library has it (control)', async () => {
  const server = await aCountingServer()
  const dispatcher = new Agent()

  for (let round = 0; round < 5; round += 1) {
    const { body } = await request(server.url, { method: 'DELETE', body: '{}', dispatcher })
    await body.text()
  }
  await dispatcher.close()

  expect(server.connections()).toBe(5)
})
