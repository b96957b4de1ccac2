import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer as createHttp } from 'node:http'
import { createServer } from 'node:https'
import { type AddressInfo, connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { createTestAuthority } from '../fakes/test-authority.ts'
import { alice, aRun, dataOf, follow, shell, startService } from './service-rig.ts'

const HOST = 'registry.agentweaver-test.com'

/** The proxy of a company, which resolves every name to this machine. */
async function companyProxy(port: number) {
  const asked: string[] = []
  const server = createHttp().on('connect', (request, client) => {
    asked.push(String(request.url))
    const target = connect(port, '127.0.0.1', () => {
      client.write('HTTP/1.1 200 OK\r\n\r\n')
      client.pipe(target).pipe(client)
    })
    for (const socket of [client, target]) socket.on('error', () => socket.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { asked, url, close: () => server.close() }
}

/** A service whose egress list has one host of this machine. */
async function aPlace(ceiling: string, limits = 'mode: full', { upstream = false } = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'aw-run-egress-'))
  const authority = createTestAuthority()
  const served: string[] = []
  const server = createServer(authority.serverFor(HOST), (request, response) => {
    served.push(`${request.method} ${request.url}`)
    response.end('from the registry')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const company = await companyProxy(port)
  const entry = `{ host: ${HOST}, ports: [${port}], ${limits}, ${upstream ? '' : 'addresses: [127.0.0.1], '}why: a registry of the test }`
  const files = {
    'egress.yaml': `apiVersion: agentweaver.io/v1\nkind: EgressPolicy\nname: test\nclasses:\n  agent: [${entry}]\n  command: []\n`,
    'ceiling.yml': ceiling,
    'roots.pem': authority.certificate,
  }
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  const started = await startService({
    AGENTWEAVER_EGRESS_FILE: join(folder, 'egress.yaml'),
    AGENTWEAVER_EGRESS_ROOTS_FILE: join(folder, 'roots.pem'),
    AGENTWEAVER_CEILING_FILE: join(folder, 'ceiling.yml'),
    AGENTWEAVER_LOCAL_WARM: '0',
    ...(upstream && { AGENTWEAVER_EGRESS_UPSTREAM_PROXY: company.url }),
  })
  onTestFinished(async () => {
    await started.close()
    server.close()
    company.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const run = async (command: string, policy = {}) => {
    const path = started.aWorkspace()
    writeFileSync(join(path, 'ca.crt'), authority.certificate)
    const { id } = await started.service.startRun(alice, { ...aRun(path, [shell(command)]), policy })
    return { id, events: await follow(started.service, id) }
  }
  return { ...started, run, served, company, url: `https://${HOST}:${port}/` }
}

it('gives the commands of a run the listed hosts, and shows the refused connections', async () => {
  const { run, url, store } = await aPlace('network_enabled: true\n')

  const { id, events } = await run(
    `curl -sS --cacert ca.crt ${url}; curl -s https://evil.agentweaver-test.com/; true`,
    {
      network_enabled: true,
    },
  )

  const [result] = dataOf(events, 'tool.result')
  expect(JSON.stringify(result)).toContain('from the registry')
  expect(JSON.stringify(result)).toContain('agentweaver: Connection to evil.agentweaver-test.com:443 refused')
  expect(dataOf(events, 'egress.denied')).toMatchObject([
    { host: 'evil.agentweaver-test.com', rule: 'not-listed' },
  ])
  expect(dataOf(events, 'egress.summary')).toMatchObject([
    { hosts: [{ denied: 1 }, { host: HOST, connections: 1 }] },
  ])
  expect(events.at(-1)?.event.type).toBe('done')
  expect(dataOf(events, 'sandbox.warning').map(({ category }) => category)).not.toContain(
    'network-unrestricted',
  )
  const { items } = await store.readAudit({ runId: id, limit: 100 })
  expect(items.map(({ record }) => JSON.parse(record))).toContainEqual(
    expect.objectContaining({ kind: 'egress.denied', decision: 'deny', tool: 'egress' }),
  )
})

it('lets commands read from a host that they may not write to, with the certificates of the sandbox', async () => {
  const { run, url, served } = await aPlace('network_enabled: true\n', 'mode: read-only, paths: [/public/**]')

  const { events } = await run(
    `curl -sS ${url}public/a; curl -sS -X PUT -d x ${url}public/a; curl -sS ${url}private/a; true`,
    { network_enabled: true },
  )

  const [result] = dataOf(events, 'tool.result')
  expect(served).toEqual(['GET /public/a'])
  expect(JSON.stringify(result)).toContain('from the registry')
  expect(JSON.stringify(result)).toContain('the method PUT is not allowed for this host, only GET, HEAD')
  expect(dataOf(events, 'egress.denied')).toMatchObject([
    { host: HOST, rule: 'method', method: 'PUT' },
    { host: HOST, rule: 'path', path: '/private/a' },
  ])
  expect(dataOf(events, 'sandbox.warning').map(({ category }) => category)).not.toContain('egress-by-name')
  expect(events.at(-1)?.event.type).toBe('done')
})

it('reports many names that look random, and shows them with the refusals of the run', async () => {
  const { run, service, store } = await aPlace('network_enabled: true\n')
  const names = 'for i in $(seq 12); do echo $i | sha256sum | cut -c1-32; done'

  const { id, events } = await run(
    `for name in $(${names}); do curl -s https://$name.collector-example.com/; done; true`,
    { network_enabled: true },
  )

  const anomaly = { kind: 'names', host: '*.collector-example.com', port: 0, count: 12 }
  expect(dataOf(events, 'egress.anomaly')).toMatchObject([anomaly])
  expect((await service.readEgress(alice, id)).anomalies).toMatchObject([anomaly])
  const { items } = await store.readAudit({ runId: id, limit: 100 })
  expect(items.map(({ record }) => JSON.parse(record))).toContainEqual(
    expect.objectContaining({ kind: 'egress.anomaly', tool: 'egress' }),
  )
})

it('reaches hosts through the proxy of a company, and says that it cannot check their addresses', async () => {
  const { run, url, company } = await aPlace('network_enabled: true\n', 'mode: read-only', { upstream: true })

  const { events } = await run(`curl -sS ${url}; true`, { network_enabled: true })
  const without = await run('true', { network_enabled: false })

  expect(JSON.stringify(dataOf(events, 'tool.result'))).toContain('from the registry')
  expect(company.asked).toEqual([new URL(url).host])
  expect(dataOf(events, 'sandbox.warning')).toContainEqual(
    expect.objectContaining({
      category: 'egress-upstream-proxy',
      message: expect.stringContaining(company.url),
    }),
  )
  expect(dataOf(without.events, 'sandbox.warning').map(({ category }) => category)).not.toContain(
    'egress-upstream-proxy',
  )
})

it('gives no network to a run that does not request it', async () => {
  const { run, url } = await aPlace('network_enabled: true\n')

  const { events } = await run(`env | grep -ci proxy; curl -sS --cacert ca.crt ${url}; true`, {
    network_enabled: false,
  })

  expect(JSON.stringify(dataOf(events, 'tool.result'))).toContain('Could not resolve host')
  expect(dataOf(events, 'egress.summary')).toEqual([])
})

it('rejects a run that asks for the network, if the ceiling does not allow it', async () => {
  const { run } = await aPlace('network_enabled: false\n')

  await expect(run('true', { network_enabled: true })).rejects.toThrow('AGENTWEAVER_CEILING_FILE')
})
