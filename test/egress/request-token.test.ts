import { expect, it } from 'vitest'
import { isModelHead, tokenOf } from '../../runtime/egress/cluster/request-token.ts'

const MODEL = 'POST /model/v1/responses HTTP/1.1'
const OWN = 'Proxy-Authorization: Bearer a.b.c'

it.each([
  ['an empty line', `\r\n${MODEL}`],
  ['a line feed', `\n${MODEL}`],
])('takes no token from a request behind %s, which the parser of Node skips', (_what, start) => {
  expect(tokenOf(`${start}\r\n${OWN}`)).toBeUndefined()
})

it.each(['CONNECT a.example:443\n', 'GET http://a.example/\r', 'GET / HTTP/1.1\nX: a'])(
  'takes no token from a request with a line end that is not CRLF: %j',
  (start) => {
    expect(tokenOf(`${start}\r\n${OWN}`)).toBeUndefined()
  },
)

it.each([
  ['a second space', 'POST  /model/v1/responses HTTP/1.1'],
  ['an older version', 'POST /model/v1/responses HTTP/1.0'],
  ['no version', 'POST /model/v1/responses'],
  ['a method with a hyphen', 'M-SEARCH /model HTTP/1.1'],
])('knows a request to the model with %s, as the parser of Node does', (_what, line) => {
  expect(isModelHead(`${line}\r\n${OWN}`)).toBe(true)
  expect(tokenOf(`${line}\r\n${OWN}`)).toBeUndefined()
  expect(tokenOf(`${line}\r\nAuthorization: Bearer a.b.c`)).toBe('a.b.c')
})

it('takes the token of every other request from the header for proxies', () => {
  const head = 'CONNECT a.example:443 HTTP/1.1'

  expect(tokenOf(`${head}\r\n${OWN}`)).toBe('a.b.c')
  expect(tokenOf(`${head}\r\nAuthorization: Bearer a.b.c`)).toBeUndefined()
  expect(isModelHead('GET http://a.example/model/v1 HTTP/1.1')).toBe(false)
})
