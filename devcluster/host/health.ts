import { Agent, request } from 'undici'

const TIMEOUT_MS = 2_000

/** Certificates of health endpoints are self-signed; nothing is told to them and nothing of theirs is trusted. */
const dispatcher = new Agent({ connect: { rejectUnauthorized: false }, keepAliveTimeout: 100 })

/** True when the URL answers 2xx in time. */
export async function isHealthy(url: string): Promise<boolean> {
  try {
    const { statusCode, body } = await request(url, { dispatcher, signal: AbortSignal.timeout(TIMEOUT_MS) })
    await body.dump()
    return statusCode >= 200 && statusCode < 300
  } catch {
    return false
  }
}
