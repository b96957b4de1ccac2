import { expect, it, onTestFinished } from 'vitest'
import { UpstreamProxyUrl } from '../../contracts/egress-proxy-env.ts'
import { parseUpstreamProxy } from '../../runtime/egress/upstream-proxy.ts'
import { startCompanyProxy } from '../fakes/company-proxy.ts'
import { exchange, HOST, OTHER, proxyRig, servers, TERMINATED, tlsThrough } from './proxy-rig.ts'
import { httpsServer } from './terminate-rig.ts'

/** The proxy of a company. It resolves every name to this machine, or answers with `answer`. */
async function companyProxy(answer?: string) {
  const { port, asked, close } = await startCompanyProxy({
    resolve: () => '127.0.0.1',
    ...(answer !== undefined && { answer }),
  })
  onTestFinished(close)
  return { asked, upstream: { host: '127.0.0.1', port } }
}

const WITHOUT_ADDRESSES = { addresses: undefined }
/** A look-up would be a way around the company's proxy. */
const resolve = () => Promise.reject(new Error('the egress proxy looked a name up'))

it('reaches a host through the proxy of the company, which alone resolves its name', async () => {
  const site = await servers()
  const { upstream, asked } = await companyProxy()
  const { socketPath } = await proxyRig({
    ...{ ports: [site.tls, site.http], resolve, upstream },
    entry: { ...WITHOUT_ADDRESSES, http: 'allow', methods: ['GET'] },
  })

  const unread = await tlsThrough(socketPath, `${HOST}:${site.tls}`, { servername: HOST })
  const plain = await exchange(
    socketPath,
    `GET http://${HOST}:${site.http}/x HTTP/1.1\r\nHost: ${HOST}:${site.http}\r\nConnection: close\r\n\r\n`,
  )
  unread.destroy()

  expect(plain).toMatch(/^HTTP\/1\.1 200 .*plain/s)
  expect(asked).toEqual([`${HOST}:${site.tls}`, `${HOST}:${site.http}`])
})

it('terminates TLS behind it, and still refuses what the list refuses', async () => {
  const { port, seen } = await httpsServer()
  const { upstream, asked } = await companyProxy()
  const { socketPath } = await proxyRig({
    ...{ ports: [port], resolve, upstream, entry: { ...TERMINATED, ...WITHOUT_ADDRESSES } },
  })
  const send = async (method: string) => {
    const socket = await tlsThrough(socketPath, `${HOST}:${port}`, {
      ...{ servername: HOST, rejectUnauthorized: false },
    })
    let text = ''
    for await (const chunk of socket.end(
      `${method} /x HTTP/1.1\r\nHost: ${HOST}:${port}\r\nConnection: close\r\n\r\n`,
    ))
      text += chunk
    return text
  }

  expect(await send('GET')).toMatch(/^HTTP\/1\.1 200 .*answer to GET \/x/s)
  expect(await send('DELETE')).toMatch(/^HTTP\/1\.1 405 /)
  expect(await exchange(socketPath, `CONNECT ${OTHER}:${port} HTTP/1.1\r\n\r\n`)).toMatch(/^HTTP\/1\.1 403 /)
  expect(seen.map(({ method }) => method)).toEqual(['GET'])
  expect(asked).toEqual([`${HOST}:${port}`])
})

it('reaches a host with listed addresses directly, and checks them', async () => {
  const site = await servers()
  const { upstream, asked } = await companyProxy()
  const { socketPath } = await proxyRig({ ports: [site.tls], resolve, upstream })

  const socket = await tlsThrough(socketPath, `${HOST}:${site.tls}`, { servername: HOST })
  socket.destroy()

  expect(asked).toEqual([])
})

it.each([
  ['refuses', 'HTTP/1.1 403 Forbidden\r\n\r\n', 'refused it with the status 403'],
  [
    'needs a password',
    'HTTP/1.1 407 Proxy Authentication Required\r\n\r\n',
    'refused it with the status 407',
  ],
  ['speaks another protocol', 'SSH-2.0-x\r\n\r\n', 'the upstream proxy failed \\(HPE'],
  ['answers without an end', 'HTTP/1.1 200 OK\r\n', 'the upstream proxy failed'],
  [
    'sends a long head',
    `HTTP/1.1 200 OK\r\n${'x'.repeat(20_000)}`,
    'the upstream proxy failed \\(HPE_HEADER_OVERFLOW',
  ],
  ['sends bytes of its own', 'HTTP/1.1 200 OK\r\n\r\nx', 'sent bytes of its own'],
])('has no other way if the proxy of the company %s', async (_what, answer, reason) => {
  const site = await servers()
  const { upstream, asked } = await companyProxy(answer)
  const { socketPath } = await proxyRig({
    ...{ ports: [site.tls], resolve, upstream, entry: WITHOUT_ADDRESSES },
  })

  const refused = await exchange(socketPath, `CONNECT ${HOST}:${site.tls} HTTP/1.1\r\n\r\n`)

  expect(refused).toMatch(new RegExp(`^HTTP/1\\.1 502 .*${reason}`, 's'))
  expect(site.names).toEqual([])
  expect(asked).toHaveLength(1)
})

it('has no other way if the proxy of the company is not there', async () => {
  const site = await servers()
  const { socketPath } = await proxyRig({
    ...{ ports: [site.tls], resolve, entry: WITHOUT_ADDRESSES },
    upstream: { host: '127.0.0.1', port: 9 },
  })

  const refused = await exchange(socketPath, `CONNECT ${HOST}:${site.tls} HTTP/1.1\r\n\r\n`)

  expect(refused).toMatch(/^HTTP\/1\.1 502 .*the upstream proxy failed \(ECONNREFUSED\)/s)
  expect(site.names).toEqual([])
})

it('is named by a URL without a password or a path', () => {
  expect(parseUpstreamProxy('http://proxy.example.com:8080')).toEqual({
    host: 'proxy.example.com',
    port: 8080,
  })
  for (const url of ['http://proxy:80', 'http://10.0.0.1:3128/', 'http://[2001:db8::1]:3128'])
    expect(UpstreamProxyUrl.safeParse(url).success, url).toBe(true)
  expect(parseUpstreamProxy('http://[2001:db8::1]:3128/')).toEqual({ host: '2001:db8::1', port: 3128 })
  const refused = [
    'https://p:1',
    'http://u:p@proxy:8080',
    'http://proxy',
    'http://proxy:8080/a',
    'http://p:99999',
    'http://010.0.0.1:3128',
    'http://1.2.3:3128',
    'http://167772161:3128',
    'http://0x7f.1:3128',
    'http://0X0A000001:3128',
    'http://10.0.0.1.:3128',
    'http://PROXY.example.com:3128',
    'http://[2001:db8:0::1]:3128',
    'http://[2001:DB8::1]:3128',
    'http://[::ffff:10.0.0.1]:3128',
  ]
  for (const url of refused) expect(UpstreamProxyUrl.safeParse(url).success, url).toBe(false)
})
