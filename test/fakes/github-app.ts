import { type KeyObject, verify } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'

/** One request for a token of an installation. */
export interface AskedToken {
  readonly url: string
  readonly body: unknown
  /** Whether the key of the app signed it. */
  readonly isSigned: boolean
  readonly issuer: string
}

/** GitHub's API for installation tokens. It returns the token even for a request that the app did not sign. */
export async function answerForApp(
  request: IncomingMessage,
  response: ServerResponse,
  { publicKey, token, status = 201 }: { publicKey: KeyObject; token: string; status?: number },
): Promise<AskedToken> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk)
  const [, jwt = ''] = (request.headers.authorization ?? '').split(' ')
  const [head = '', payload = '', signature = ''] = jwt.split('.')
  const asked = {
    url: `${request.method} ${request.url}`,
    body: JSON.parse(Buffer.concat(chunks).toString()),
    isSigned: verify(
      'sha256',
      Buffer.from(`${head}.${payload}`),
      publicKey,
      Buffer.from(signature, 'base64url'),
    ),
    issuer: JSON.parse(Buffer.from(payload, 'base64url').toString()).iss,
  }
  const answer = { token, expires_at: '2027-01-01T00:00:00Z' }
  response.writeHead(status).end(JSON.stringify(status === 201 ? answer : { message: token }))
  return asked
}
