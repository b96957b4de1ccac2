import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { startApp } from './harness.ts'

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
type Example = { status: number; method: Method; url: string; headers: Record<string, string>; body: string }

/** The requests of the page: fenced blocks whose info string has the expected status. */
function examplesOf(page: string): Example[] {
  return [...page.matchAll(/```http (\d+)\n([\s\S]*?)\n```/g)].map(([, status, text = '']) => {
    const [head = '', ...body] = text.split('\n\n')
    const [request = '', ...headers] = head.split('\n')
    const [method, url = ''] = request.split(' ')
    const pairs = headers.map((line) => line.split(': ', 2))
    return {
      status: Number(status),
      method: method as Method,
      url,
      headers: Object.fromEntries(pairs),
      body: body.join('\n\n'),
    }
  })
}

test('every request in docs/api.md returns the status that the page shows', async () => {
  const { app, keys, service } = startApp()
  const page = await readFile(new URL('../../docs/api.md', import.meta.url), 'utf8')
  const examples = examplesOf(page)
  expect(examples.length).toBeGreaterThanOrEqual(12)
  const words = new Map([['$KEY', keys.ada]])
  const fill = (text: string) => text.replaceAll(/\$[A-Z]+/g, (word) => words.get(word) ?? word)
  const learn = ({ id, kind }: { id: string; kind?: string }) => {
    if (kind === 'command') words.set('$SANDBOX', id)
    if (kind === 'agent') words.set('$RUN', id).set('$REQUEST', service.addApproval(id).requestId)
  }
  for (const { status, method, url, headers, body } of examples) {
    // The stream of a running run does not end, so the test does not wait for it.
    const payloadAsStream = url.endsWith('/stream')
    const filled = Object.entries(headers).map(([name, value]) => [name, fill(value)])
    const request = { method, url: fill(url), headers: Object.fromEntries(filled), payloadAsStream }
    const answer = await app.inject({ ...request, ...(body && { body: fill(body) }) })
    if (payloadAsStream) answer.stream().destroy()
    expect(answer.statusCode, `${method} ${url}`).toBe(status)
    if (status === 202) learn(answer.json())
  }
})
