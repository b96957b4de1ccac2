import { randomBytes } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { afterAll, expect, it, onTestFinished } from 'vitest'
import { createAgentHostClient } from '../../runtime/agent-host-client/client.ts'
import { createLaptop, startOnPort } from '../agent-host/laptop-hosts.ts'
import { BEARER, collect, configure, never, turnEnded } from '../conformance/agent-host-cases/host.ts'
import { readToEnd } from '../conformance/agent-host-cases/raw-http.ts'
import { startModelServer } from '../fakes/model-server.ts'
import { until } from '../helpers/until.ts'
import { startAzure } from './azure-rig.ts'
import { NAME } from './open-credential.ts'

const laptop = createLaptop()
afterAll(() => laptop.remove())

/** The places that a hostile agent searches: every environment, and every file that may contain a token. */
const HUNT = [
  'env > env.txt',
  'cat /proc/*/environ > environs.txt 2>/dev/null',
  'cat /proc/*/cmdline > cmdlines.txt 2>/dev/null',
  'ls -laR /var/run/secrets /run/secrets /etc/agentweaver > secrets.txt 2>&1',
  'echo looked > looked.txt',
  'until test -e go.txt; do sleep 0.05; done',
].join('; ')

/** The forms in which a value could hide in bytes. */
const formsOf = (value: string): string[] => [
  value,
  Buffer.from(value).toString('base64').replace(/=+$/, ''),
  Buffer.from(value).toString('base64url'),
  Buffer.from(value).toString('hex'),
  [...value].reverse().join(''),
]

type Trove = Map<string, Buffer>

/** Where in all of these bytes one of the values is. */
const sightings = (trove: Trove, values: readonly string[]): string[] =>
  [...trove].flatMap(([where, bytes]) =>
    values.flatMap((value) => (formsOf(value).some((form) => bytes.includes(form)) ? [where] : [])),
  )

function addFolder(trove: Trove, folder: string): void {
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name)
    trove.set(path, Buffer.from(path))
    if (entry.isFile()) trove.set(`in ${path}`, readFileSync(path))
  }
}

/** A process and all that it has started. */
function treeOf(pid: number): number[] {
  const path = `/proc/${pid}/task/${pid}/children`
  const children = existsSync(path)
    ? readFileSync(path, 'utf8').trim().split(' ').filter(Boolean).map(Number)
    : []
  return [pid, ...children.flatMap(treeOf)]
}

function addProcesses(trove: Trove, pid: number): void {
  for (const each of treeOf(pid)) {
    for (const file of ['environ', 'cmdline']) {
      const path = `/proc/${each}/${file}`
      if (existsSync(path)) trove.set(path, readFileSync(path))
    }
  }
}

it('leaves its credential in no environment, file, log or event', async () => {
  const canary = `canary-${randomBytes(20).toString('hex')}`
  const azure = await startAzure()
  azure.vault.setSecret(NAME, canary)
  const model = await startModelServer({
    respond: (_request, index) =>
      index === 0
        ? { toolCalls: [{ name: 'run_command', arguments: { command: HUNT } }] }
        : index === 1
          ? { toolCalls: [{ name: 'run_command', arguments: { command: `echo ${canary} ${BEARER} >&2` } }] }
          : { text: `The key is ${canary}, and the name of it is ${NAME}.` },
  })
  onTestFinished(() => model.close())
  const caFile = join(laptop.folder, 'ca.pem')
  writeFileSync(caFile, azure.authority.certificate)
  const { identity, vaultUrl = '' } = azure.settings
  const host = await startOnPort(laptop, {
    AGENT_HOST_VAULT_URL: vaultUrl,
    AGENT_HOST_AZURE_CLIENT_ID: identity.clientId,
    AGENT_HOST_AZURE_TENANT_ID: identity.tenantId,
    AGENT_HOST_AZURE_TOKEN_FILE: identity.tokenFile,
    AGENT_HOST_LOG_LEVEL: 'debug',
    NODE_EXTRA_CA_CERTS: caFile,
    HTTPS_PROXY: azure.proxy.url,
    // The agent runtime gets both: its model is not behind the proxy.
    NO_PROXY: '127.0.0.1',
  })
  onTestFinished(() => host.close())
  const change = {
    credential: { kind: 'keyVault', secretName: NAME },
    agent: { kind: 'openaiCompatible', model: { name: 'fake-model', baseUrl: model.url } },
  } as const
  const keys = () => laptop.keys
  const subject = { start: async () => host, keys, hasIdentity: false }
  const configured = await configure(subject, host, { change })
  const client = createAgentHostClient(host.address, BEARER)
  onTestFinished(() => client.close())
  const trove: Trove = new Map()

  // the agent searches for the token and prints it, and its processes are inspected meanwhile
  await client.turns.start({ id: 't1', prompt: 'go' }, never)
  const running = collect({ client }, turnEnded)
  await until('the agent has looked around', () => existsSync(join(host.workingDirectory, 'looked.txt')))
  addProcesses(trove, host.pid)
  writeFileSync(join(host.workingDirectory, 'go.txt'), '')
  const events = await running
  trove.set('the session', await buffer((await client.getSession(never)) as Readable))
  trove.set('the workspace', await buffer((await client.getWorkspace(never)) as Readable))
  const stream = await host.connect()
  stream.write(`GET /events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${BEARER}\r\n\r\n`)
  const raw = readToEnd(stream)
  addFolder(trove, laptop.folder)
  const again = await configure(subject, host, { change })
  trove.set('the answers', Buffer.from(configured.text + again.text))
  await host.close()
  trove.set('the events', Buffer.from(await raw, 'latin1'))
  trove.set('the log', Buffer.from(host.log()))
  addFolder(trove, laptop.folder)
  const accessToken =
    azure.vault.requests.find(({ headers }) => headers.authorization)?.headers.authorization ?? ''
  const projected = readFileSync(identity.tokenFile, 'utf8')
  const values = [canary, BEARER, NAME, accessToken.slice(7), projected]

  // the token was used, it is nowhere, and the search would find it
  expect(model.requests[0]?.headers['authorization']).toBe(`Bearer ${canary}`)
  expect(events.at(-1)?.event).toMatchObject({ data: { state: 'completed' } })
  expect(readFileSync(join(host.workingDirectory, 'env.txt'), 'utf8')).toContain('PATH=')
  expect(trove.get('the log')?.length).toBeGreaterThan(0)
  expect(trove.get('the events')?.toString()).toContain('turn.ended')
  expect(sightings(trove, values)).toEqual([])
  trove.set('a control', Buffer.from(`x${Buffer.from(canary).toString('base64')}`))
  trove.set('another control', readFileSync(identity.tokenFile))
  expect(sightings(trove, values)).toEqual(['a control', 'another control'])
})
