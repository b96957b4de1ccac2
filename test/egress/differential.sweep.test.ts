import { expect, it } from 'vitest'
import { acceptedInputs } from './differential.ts'
import { passMessages } from './differential-messages.ts'
import { readTargets } from './differential-targets.ts'
import { readByLlhttp } from './llhttp.ts'

/** `npm run test:attack` tries a million inputs, and compares with the parsers of Go too. */
it('accepts no target, name or request that the parsers of Node and undici read in another way', () => {
  const counts = { authority: 0, absolute: 0, hello: 0, request: 0, first: 0 }

  for (const { kind } of acceptedInputs(26, 50_000)) counts[kind] += 1

  for (const count of Object.values(counts)) expect(count).toBeGreaterThan(100)
})

it('passes no request on that the server or undici reads with another end or body', async () => {
  expect(await passMessages(26, 2_000)).toBeGreaterThan(1_000)
})

it('reads no target of a tunnel or of a request in another way than the parsers of undici and of URLs', async () => {
  expect(await readTargets(26, 4_000)).toBeGreaterThan(400)
})

it('would see a difference: the parser of undici reads a second request, another end and a refusal', () => {
  const head = 'POST /x HTTP/1.1\r\nHost: a.example.com\r\n'
  const urls = (text: string) => readByLlhttp(Buffer.from(text)).messages.map(({ url }) => url)
  const second = 'GET /y HTTP/1.1\r\nHost: a.example.com\r\n\r\n'

  expect(urls(`${head}Content-Length: 2\r\n\r\nhi${second}`)).toEqual(['/x', '/y'])
  expect(urls(`${head}Content-Length: ${second.length}\r\n\r\n${second}`)).toEqual(['/x'])
  expect(urls(`${head}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n${second}`)).toEqual(['/x', '/y'])
  expect(readByLlhttp(Buffer.from(`${head}Content-Length: 2\r\nContent-Length: 3\r\n\r\n`)).isRefused).toBe(
    true,
  )
})
