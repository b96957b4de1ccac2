import { randomUUID } from 'node:crypto'
import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import { expect, it, onTestFinished } from 'vitest'
import { EgressControlMessage } from '../../contracts/egress-control.ts'
import { EGRESS_CONTROL_ROUTES } from '../../contracts/routes.ts'
import { until } from '../helpers/until.ts'
import { aCheck } from '../store/credential-checks.suite.ts'
import { deploymentRig, startControl } from './cluster-rig.ts'

/** Opens the control stream of one process of a replica. */
async function follow(url: string, token: string): Promise<EgressControlMessage[]> {
  const stop = new AbortController()
  onTestFinished(() => stop.abort())
  const target = new URL(`${EGRESS_CONTROL_ROUTES.control}?proxy=${randomUUID()}`, url)
  const headers = { authorization: `Bearer ${token}` }
  const { body } = await fetch(target, { headers, signal: stop.signal })
  if (!body) throw new Error('the stream has no body')
  const messages: EgressControlMessage[] = []
  createInterface({ input: Readable.fromWeb(body) })
    .on('line', (line) => void messages.push(EgressControlMessage.parse(JSON.parse(line))))
    // The end of the test ends the stream.
    .on('error', () => undefined)
  await until('the stream has begun', () => messages.length > 0)
  return messages
}

it('sends the news of a check only to the process that inserts credentials', async () => {
  const rig = await deploymentRig([443])
  const { url } = await startControl(rig)
  const proxy = await follow(url, 'proxy-token')
  const credentials = await follow(url, 'credentials-token')
  const checks = ['ada', 'bob', 'carol'].map(aCheck)

  for (const check of checks) {
    await rig.store.insertCredentialCheck(check, 600_000)
    await until('the check is announced', () => credentials.at(-1)?.checks?.includes(check.id) === true)
  }

  const announced = credentials.filter((one) => one.checks !== undefined).map(({ revision }) => revision)
  // A new stream makes the API send the state to all of them.
  await follow(url, 'credentials-token')
  await until('the proxy has a newer state', () => (proxy.at(-1)?.revision ?? 0) > Math.max(...announced))
  const got = new Set(proxy.map(({ revision }) => revision))
  // A renewal of the leases may fall together with one of the three.
  expect(announced.filter((revision) => !got.has(revision))).not.toEqual([])
  expect(proxy.every((one) => one.checks === undefined)).toBe(true)
})
