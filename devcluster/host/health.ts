import { Agent, request } from 'undici'

const TIMEOUT_MS = 2_000

/**
 * Health endpoints have self-signed certificates. The requests carry no secrets, and only the status code of a response
 * is used.
 */
const dispatcher = new Agent({ connect: { rejectUnauthorized: false }, keepAliveTimeout: 100 })

/** True if the URL responds with 2xx before the timeout. */
export async function isHealthy(url: string): Promise<boolean> {
  try {
    const { statusCode, body } = await request(url, { dispatcher, signal: AbortSignal.timeout(TIMEOUT_MS) })
    await body.dump()
    return statusCode >= 200 && statusCode < 300
  } catch {
    return false
  }
}
