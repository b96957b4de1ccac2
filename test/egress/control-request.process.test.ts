import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { fetchCredential } from '../../runtime/egress/cluster/fetch-credential.ts'
import { takeShare } from '../../runtime/egress/cluster/reserve.ts'
import { CANARY } from './cluster-rig.ts'
import { listening, portOf } from './proxy-rig.ts'

/** An API that answers every request alike. */
async function place(status: number, body: string) {
  const folder = mkdtempSync(join(tmpdir(), 'aw-control-request-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const tokenFile = join(folder, 'token')
  writeFileSync(tokenFile, 'a-token\n')
  const server = await listening(createServer((_request, response) => response.writeHead(status).end(body)))
  return { url: `http://127.0.0.1:${portOf(server)}`, tokenFile }
}

const failureOf = (work: Promise<unknown>) => work.then(String, String)
const credential = { runId: 'run_1', generation: 1, credential: 'git' }
const share = { runId: 'run_1', generation: 1, missing: 1 }

it.each([
  ['no JSON', 200, `{"value": ${CANARY}`],
  ['another object', 200, JSON.stringify({ [CANARY]: CANARY })],
  ['too long', 200, CANARY.repeat(1000)],
  ['an error', 500, CANARY],
])('quotes no answer of the API that is %s', async (_what, status, body) => {
  const api = await place(status, body)

  const failures = [await failureOf(fetchCredential(api, credential)), await failureOf(takeShare(api, share))]

  for (const failure of failures) {
    expect(failure).toMatch(/^Error: the (answer of the API|API answered)/)
    expect(failure).not.toContain(CANARY)
  }
})

it('reports a credential that the run does not have', async () => {
  const api = await place(403, '{}')

  expect(await failureOf(fetchCredential(api, credential))).toBe('Error: this run has no such credential')
})
