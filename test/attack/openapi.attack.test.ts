import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type ServiceProcess, spawnService } from '../api/service-process.ts'
import { installPythonTools, type PythonTools } from './python-tools.ts'

/** Cases per operation. The seed makes a run repeatable; `SEED` and `EXAMPLES` in the environment change both. */
const EXAMPLES = process.env['EXAMPLES'] ?? '50'
const SEED = process.env['SEED'] ?? '1'
/** The tool cannot make tar streams. `test/api` covers the upload. */
const NOT_GENERATED = ['--exclude-operation-id', 'uploadRunWorkspace']

/** The document describes the data of an event of a stream; the tool compares the record around it. */
const CONFIG = `[checks]
enabled = false
not_a_server_error.enabled = true
response_schema_conformance.enabled = true
content_type_conformance.enabled = true

[[operations]]
include-operation-id = ["streamRunEvents", "startRunCommand", "startSandboxCommand"]
checks.response_schema_conformance.enabled = false
`

let tools: PythonTools | undefined
let missing: string | undefined
let folder: string
let service: ServiceProcess | undefined

beforeAll(async () => {
  const installed = await installPythonTools()
  if ('missing' in installed) missing = installed.missing
  else tools = installed
  folder = await mkdtemp(join(tmpdir(), 'attack-service-'))
})
afterAll(async () => {
  service?.child.kill('SIGKILL')
  await service?.exited
  await tools?.remove()
  await rm(folder, { recursive: true, force: true })
})

test('schemathesis gets no server error from the service', async ({ skip }) => {
  if (tools === undefined) return skip(missing)
  const { url, apiKeyFile } = await startService()
  const key = (await readFile(apiKeyFile, 'utf8')).trim()

  // Half of the cases reach a sandbox that exists, the other half an identifier that the tool invents.
  const sandbox = await createSandbox(url, key)
  await writeFile(join(tools.folder, 'real.toml'), `[parameters]\n"path.id" = "${sandbox}"\n${CONFIG}`)
  await writeFile(join(tools.folder, 'invented.toml'), CONFIG)
  const authorized = ['--header', `Authorization: Bearer ${key}`, ...NOT_GENERATED]
  for (const config of ['invented', 'real']) {
    const { status, output } = await attack(tools, `${url}/openapi.json`, { config, argv: authorized })
    process.stdout.write(`${config} identifiers ${output.slice(output.lastIndexOf('= SUMMARY ='))}\n`)
    expect(status, output.slice(0, 20_000)).toBe(0)
  }
  expect(await (await fetch(`${url}/healthz`)).json()).toEqual({ status: 'ok' })
})

test('schemathesis finds a planted server error', async ({ skip }) => {
  if (tools === undefined) return skip(missing)
  const server = createServer((request, response) => {
    const isDocument = request.url === '/openapi.json'
    response.writeHead(isDocument ? 200 : 500, { 'content-type': 'application/json' })
    response.end(JSON.stringify(isDocument ? ONE_ROUTE : {}))
  }).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as AddressInfo

  const { status, output } = await attack(tools, `http://127.0.0.1:${port}/openapi.json`)
  server.close()

  expect(status).toBe(1)
  expect(output).toContain('Server error')
})

test('openapi-python-client makes a client whose names come from the document', async ({ skip }) => {
  if (tools === undefined) return skip(missing)
  const { url } = await startService()
  const client = join(folder, 'client')

  const { status, output } = await tools.run('openapi-python-client', [
    'generate',
    ...['--url', `${url}/openapi.json`],
    ...['--output-path', client],
    ...['--meta', 'none'],
  ])

  expect(status, output.slice(-5_000)).toBe(0)
  expect(await readdir(join(client, 'api/runs'))).toEqual(
    expect.arrayContaining(['start_run.py', 'list_runs.py', 'get_run.py', 'cancel_run.py']),
  )
  const models = await readdir(join(client, 'models'))
  expect(models).toEqual(expect.arrayContaining(['run.py', 'run_envelope.py', 'problem.py', 'start_run.py']))
  expect(models.filter((name) => /_type_\d+(_|\.)/.test(name))).toEqual([])
  const imported = await tools.run('python', [
    '-c',
    `import sys; sys.path.insert(0, '${folder}'); ${PROGRAM}`,
  ])
  expect(imported).toEqual({ status: 0, output: 'fix it\n' })
})

const PROGRAM = [
  'from client.models import StartRun, EmptyWorkspace, CopilotAgent',
  'from client.api.runs import start_run',
  'run = StartRun.from_dict({"task": "fix it", "workspace": {"kind": "empty"}, "agent": {"kind": "copilot"}})',
  'print(run.task)',
].join('; ')

const ONE_ROUTE = {
  openapi: '3.1.0',
  info: { title: 'broken', version: '1' },
  paths: { '/thing': { get: { responses: { 200: { description: 'OK' } } } } },
}

type Attack = { readonly argv?: readonly string[]; readonly config?: string }

const attack = (python: PythonTools, document: string, { argv = [], config }: Attack = {}) =>
  python.run('st', [
    ...(config ? ['--config-file', `${config}.toml`] : []),
    ...['run', document, '--phases', 'examples,coverage,fuzzing,stateful'],
    ...['--max-examples', EXAMPLES, '--seed', SEED, '--request-timeout', '30'],
    ...['--continue-on-failure', '--no-color', '--generation-database', 'none'],
    ...argv,
  ])

async function createSandbox(url: string, key: string): Promise<string> {
  const response = await fetch(`${url}/api/sandboxes`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ workspace: { kind: 'empty' } }),
  })
  expect(response.status).toBe(202)
  return ((await response.json()) as { id: string }).id
}

async function startService() {
  service ??= spawnService({
    AGENTWEAVER_STATE_DIR: join(folder, 'state'),
    AGENTWEAVER_RATE_LIMIT_PER_MINUTE: '1000000',
  })
  return service.ready
}
