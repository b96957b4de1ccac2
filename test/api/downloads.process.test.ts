import { request } from 'undici'
import { expect, it, onTestFinished } from 'vitest'
import { API_ROUTES } from '../../contracts/routes.ts'
import { generateApiKey } from '../../runtime/api/http/api-key.ts'
import type { Caller } from '../../runtime/api/runs/service.ts'
import { until } from '../helpers/until.ts'
import { bearer, listen, RUN, startApp } from './harness.ts'

/** A service whose workspaces never end. */
async function endlessDownloads() {
  const harness = startApp()
  const ended: string[] = []
  const downloadWorkspace = async (_caller: Caller, id: string, signal: AbortSignal) =>
    (async function* () {
      try {
        for (;;) {
          signal.throwIfAborted()
          yield new Uint8Array(65_536)
        }
      } finally {
        ended.push(id)
      }
    })()
  Object.assign(harness.service, { downloadWorkspace })
  const url = await listen(harness)
  const { id } = await harness.service.startRun(
    { owner: 'ada', role: 'user' },
    { ...RUN, interactive: false },
  )
  const open = async (key: string) => {
    const answer = await request(`${url}${API_ROUTES.runs}/${id}/workspace`, { headers: bearer(key) })
    onTestFinished(() => void answer.body.on('error', () => undefined).destroy())
    return answer
  }
  return { harness, open, ended }
}

it('limits the open downloads of one owner, also over several keys, and not the downloads of others', async () => {
  const { harness, open, ended } = await endlessDownloads()
  const { ada, operator } = harness.keys
  const second = harness.store.addKey(generateApiKey(), 'ada')

  const first = [await open(ada), await open(ada), await open(second), await open(ada)]
  const fifth = await open(second)
  const ofAnother = await open(operator)

  expect(first.map(({ statusCode }) => statusCode)).toEqual([200, 200, 200, 200])
  expect([fifth.statusCode, ofAnother.statusCode]).toEqual([429, 200])
  expect(fifth.headers['retry-after']).toBe('10')
  expect(await fifth.body.json()).toMatchObject({
    code: 'too_many_streams',
    detail: 'You have 4 open downloads, which is the limit. Wait until one of them has ended.',
  })
  first[0]?.body.on('error', () => undefined).destroy()
  await until('the download has ended', () => ended.length === 1)
  expect((await open(ada)).statusCode).toBe(200)
})
