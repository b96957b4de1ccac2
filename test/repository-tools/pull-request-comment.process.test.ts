import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import { postComment } from '../../tools/pull-request-comment/post-comment.ts'

interface Comment {
  id: number
  body: string
  user: { type: string }
}

/** GitHub, as far as comments go. */
async function aGitHub(comments: Comment[], status = 200) {
  const asked: string[] = []
  const server = createServer(async (request: IncomingMessage, answer) => {
    asked.push(`${request.method} ${request.url} ${request.headers.authorization}`)
    const body = await text(request)
    const url = new URL(request.url ?? '', 'http://x')
    answer.writeHead(status, { 'content-type': 'application/json' })
    if (request.method === 'GET') {
      const page = Number(url.searchParams.get('page'))
      answer.end(JSON.stringify(comments.slice((page - 1) * 100, page * 100)))
      return
    }
    const id = Number(url.pathname.split('/').at(-1))
    const written = JSON.parse(body).body
    const found = comments.find((one) => one.id === id)
    if (found) found.body = written
    else comments.push({ id: 1000 + comments.length, body: written, user: { type: 'Bot' } })
    answer.end('{}')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const apiUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const post = (body: string, topic = 'plan') =>
    postComment({ apiUrl, token: 't0ken', repository: 'a/b', pullRequest: 7, topic, body })
  return { asked, post }
}

test('creates a comment, replaces it on the second call, and creates another one for another topic', async () => {
  const comments: Comment[] = []
  const { post, asked } = await aGitHub(comments)

  expect(await post('one')).toBe('created')
  expect(await post('two')).toBe('updated')
  expect(await post('three', 'preview-stack')).toBe('created')

  expect(comments.map(({ body }) => body)).toEqual([
    '<!-- agentweaver:plan -->\ntwo',
    '<!-- agentweaver:preview-stack -->\nthree',
  ])
  expect(asked.every((line) => line.endsWith('Bearer t0ken'))).toBe(true)
})

test('finds its comment among hundreds, and does not change a similar comment of another author', async () => {
  const others = Array.from({ length: 230 }, (_, id) => ({ id: id + 1, body: 'hm', user: { type: 'User' } }))
  const comments: Comment[] = [
    { id: 900, body: '<!-- agentweaver:plan -->\nfake', user: { type: 'User' } },
    ...others,
    { id: 901, body: '<!-- agentweaver:plan -->\nold', user: { type: 'Bot' } },
  ]
  const { post } = await aGitHub(comments)

  expect(await post('new')).toBe('updated')

  expect(comments.find(({ id }) => id === 900)?.body).toContain('fake')
  expect(comments.find(({ id }) => id === 901)?.body).toContain('new')
})

test('truncates a page that exceeds GitHub’s limit, and adds a note', async () => {
  const comments: Comment[] = []
  const { post } = await aGitHub(comments)

  await post('x'.repeat(200_000))

  expect(comments[0]?.body.length).toBeLessThan(65_536)
  expect(comments[0]?.body).toMatch(/truncated: the complete page is in the summary/)
})

test('throws an error without the token if GitHub rejects the call', async () => {
  const { post } = await aGitHub([], 403)

  await expect(post('one')).rejects.toThrow(/^GitHub returned 403 for GET [^ ]+$/)
})
