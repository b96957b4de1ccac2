import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type OwnService, startOwnService } from '../cli/own-service.ts'
import { until } from '../helpers/until.ts'

let folder: string
let service: OwnService

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'aw-exec-test-'))
  const ceiling = join(folder, 'ceiling.yml')
  await writeFile(ceiling, 'network_enabled: true\n')
  service = await startOwnService(folder, { AGENTWEAVER_CEILING_FILE: ceiling })
})

afterAll(async () => {
  await service.stop()
  await rm(folder, { recursive: true })
})

test('a command over HTTP is one JSON document, and its stream is as before', async () => {
  const { client } = service
  const { id } = await client.createSandbox()
  const command = 'echo out; echo err >&2; head -c 3000 /dev/zero | tr "\\0" x; exit 7'

  const answer = await client.execCommand(id, { command, maxOutputBytes: 1000 })
  const late = await client.execCommand(id, { command: 'echo partial; sleep 600', timeoutMs: 5000 })
  const types: string[] = []
  for await (const { event } of client.runCommand(id, { command: 'echo hi' })) types.push(event.type)
  await client.destroySandbox(id)
  const after = await client.execCommand(id, { command: 'true' }).catch((error: unknown) => error)

  expect(answer).toMatchObject({ exitCode: 7, reason: 'exit', stderr: 'err\n', stderrCutBytes: 0 })
  expect(answer.stdout).toBe(`out\n${'x'.repeat(996)}`)
  expect([answer.stdoutBytes, answer.stdoutCutBytes, answer.outputTruncated]).toEqual([3004, 2004, true])
  expect(late).toMatchObject({ timedOut: true, reason: 'timeout', stdout: 'partial\n' })
  expect(late.durationMs).toBeGreaterThanOrEqual(5000)
  expect(types).toEqual(['command.output', 'command.exited'])
  expect(after).toMatchObject({ code: 'run_ended' })
})

test('the document lists the connections that the policy refused while the command ran', async () => {
  const { client } = service
  const { id } = await client.createSandbox({ policy: { network_enabled: true } })
  const command = 'curl -s https://evil.agentweaver-test.com/; until test -e go; do sleep 0.1; done'

  const answering = client.execCommand(id, { command, network: true, timeoutMs: 300_000 })
  await until('the refusal is recorded', async () =>
    (await client.readEvents(id)).items.some(({ event }) => event.type === 'egress.denied'),
  )
  await client.writeFile(id, { path: 'go', content: new Uint8Array() })
  const answer = await answering
  const offline = await client.execCommand(id, { command: 'true' })
  await client.destroySandbox(id)

  expect(answer).toMatchObject({
    exitCode: 0,
    refusals: [{ host: 'evil.agentweaver-test.com', port: 443, rule: 'not-listed' }],
  })
  expect(offline.refusals).toEqual([])
})
