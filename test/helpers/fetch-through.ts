import { Agent, buildConnector, fetch as send } from 'undici'

const dial = buildConnector({})

/**
 * Returns a `fetch` that connects to one port of this machine for every URL, and keeps the URL's host in the request.
 */
export function fetchThrough(port: number): typeof fetch {
  const agent = new Agent({
    connect: (options, callback) => dial({ ...options, hostname: '127.0.0.1', port: String(port) }, callback),
  })
  const sendThrough = (input: unknown, init: object | undefined): Promise<unknown> =>
    send(input as string, { ...init, dispatcher: agent })
  return sendThrough as typeof fetch
}
