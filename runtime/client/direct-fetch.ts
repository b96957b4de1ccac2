import type { Agent } from 'undici'

const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/

/** Whether a URL names this machine. */
export const isLoopbackUrl = (url: URL): boolean => LOOPBACK.test(url.hostname)

/**
 * `fetch` over a Unix socket or to a loopback port, ignoring the proxy variables: a proxy could read the API key of an
 * unencrypted request.
 */
export function directFetch({ socketPath }: { readonly socketPath?: string } = {}): typeof fetch {
  let agent: Agent | undefined
  const send = async (input: unknown, init: object | undefined): Promise<unknown> => {
    // Loaded with the first request: commands that send none start faster.
    // By its default export: a bundler gives a CommonJS package that is loaded late no names.
    const { default: undici } = await import('undici')
    agent ??= new undici.Agent(socketPath === undefined ? {} : { connect: { socketPath } })
    return undici.fetch(input as string, { ...init, dispatcher: agent })
  }
  return send as typeof fetch
}
