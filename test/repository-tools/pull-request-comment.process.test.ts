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

test('a first page makes a comment, a second one takes its place, another topic has its own', async () => {
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

test('finds its comment behind hundreds of others, and changes nobody else’s that looks like it', async () => {
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

test('a page longer than GitHub takes is cut, and says so', async () => {
  const comments: Comment[] = []
  const { post } = await aGitHub(comments)

  await post('x'.repeat(200_000))

  expect(comments[0]?.body.length).toBeLessThan(65_536)
  expect(comments[0]?.body).toMatch(/cut here: the whole page is in the summary/)
})

test('a refusal is an error without the token in it', async () => {
  const { post } = await aGitHub([], 403)

  await expect(post('one')).rejects.toThrow(/^GitHub answered 403 to GET [^ ]+$/)
})
