import { createPrivateKey } from 'node:crypto'
import { SignJWT } from 'jose'
import { fetch, ProxyAgent } from 'undici'
import * as z from 'zod'
import { messageOf, SandboxError } from '../../kit/errors.ts'
import type { GitHubApp } from './credentials-file.ts'

const Minted = z.object({ token: z.string().regex(/^[\x21-\x7e]{16,4096}$/), expires_at: z.string() })

/** GitHub accepts at most ten minutes. Its clock may differ by a minute. */
const JWT = { skewSeconds: 60, lifetimeSeconds: 540 } as const
const TIMEOUT_MS = 15_000
const MAX_ANSWER = 65_536

/** What a token may do in its repository. Without `workflows`, GitHub refuses a push that changes a workflow. */
const PERMISSIONS = { contents: 'write', pull_requests: 'write' } as const

/** The key of an app, and how its server is reached. */
export interface Minting {
  /** PEM. */
  readonly key: string
  readonly now: Date
  /** The company's proxy, `http://HOST:PORT`. */
  readonly upstreamProxy?: string | undefined
}

/** Creates a token of the installation for one repository. It is valid for an hour. */
export async function mintInstallationToken(app: GitHubApp, minting: Minting): Promise<string> {
  const { repository, apiUrl } = app
  const jwt = await signed(app, minting)
  const proxy = minting.upstreamProxy === undefined ? undefined : new ProxyAgent(minting.upstreamProxy)
  try {
    const { status, text } = await ask(app, { jwt, proxy }).catch((cause: unknown) => {
      throw unavailable(`${apiUrl} cannot be reached: ${messageOf(cause)}`, cause)
    })
    if (status !== 201 || text.length > MAX_ANSWER)
      throw unavailable(`GitHub refused to create a token for ${repository} (HTTP ${status})`)
    const minted = Minted.safeParse(parsed(text))
    if (!minted.success) throw unavailable(`GitHub sent an unknown answer about the token for ${repository}`)
    return minted.data.token
  } finally {
    await proxy?.destroy()
  }
}

interface Asked {
  readonly jwt: string
  readonly proxy: ProxyAgent | undefined
}

async function ask({ installationId, repository, apiUrl }: GitHubApp, { jwt, proxy }: Asked) {
  const [, name] = repository.split('/')
  const response = await fetch(`${apiUrl}/app/installations/${installationId}/access_tokens`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${jwt}`,
      accept: 'application/vnd.github+json',
      'content-type': 'application/json',
      'user-agent': 'agentweaver',
    },
    body: JSON.stringify({ repositories: [name], permissions: PERMISSIONS }),
    redirect: 'error',
    signal: AbortSignal.timeout(TIMEOUT_MS),
    ...(proxy && { dispatcher: proxy }),
  })
  return { status: response.status, text: await response.text() }
}

function signed({ appId }: GitHubApp, { key, now }: Minting): Promise<string> {
  const seconds = Math.floor(now.getTime() / 1000)
  return new SignJWT({})
    .setProtectedHeader({ alg: 'RS256' })
    .setIssuer(String(appId))
    .setIssuedAt(seconds - JWT.skewSeconds)
    .setExpirationTime(seconds + JWT.lifetimeSeconds)
    .sign(privateKeyOf(key))
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function privateKeyOf(pem: string) {
  try {
    return createPrivateKey(pem)
  } catch (cause) {
    throw unavailable('the key of the GitHub App is not a private key in PEM', cause)
  }
}

const unavailable = (message: string, cause?: unknown) =>
  new SandboxError('unavailable', message, cause === undefined ? {} : { cause })
