import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { createKubeClient } from '../../devcluster/client/kube-client.ts'

const LATER = { code: 429, reason: 'TooManyRequests', message: 'storage is (re)initializing' }
const EVICTION = {
  code: 429,
  reason: 'TooManyRequests',
  message: 'Cannot evict pod as it would break a budget',
}
const pods = { apiVersion: 'v1', plural: 'pods', namespace: 'default' }

describe('a request to the API server', () => {
  let server: Server
  let asked = 0
  afterEach(() => server.close())

  /** Responds with each refusal once, and then with an empty list. */
  async function answers(refusals: readonly { code: number }[]) {
    asked = 0
    server = createServer((_, response) => {
      const refusal = refusals[asked]
      asked += 1
      response.writeHead(refusal?.code ?? 200).end(JSON.stringify(refusal ?? { items: [] }))
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    return createKubeClient({ server: `http://127.0.0.1:${port}` })
  }

  it('is retried while the storage of its kind is not ready', async () => {
    const client = await answers([LATER, { ...LATER, message: `${LATER.message}: etcd is down` }])

    expect(await client.list(pods)).toEqual({ items: [] })

    expect(asked).toBe(3)
  })

  it('is not retried after its deadline', async () => {
    const client = await answers(Array.from({ length: 100 }, () => LATER))

    await expect(client.raw({ method: 'GET', url: '/', timeoutMs: 200 })).rejects.toThrow()

    expect(asked).toBeLessThan(10)
  })

  it.each([EVICTION, { code: 503, message: LATER.message }, { code: 409, message: 'conflict' }])(
    'is not retried after another error: $code $message',
    async (refusal) => {
      const client = await answers([refusal])

      await expect(client.list(pods)).rejects.toMatchObject({ status: refusal.code })

      expect(asked).toBe(1)
    },
  )
})
