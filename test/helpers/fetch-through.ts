import { Agent, buildConnector, fetch as send } from 'undici'

const dial = buildConnector({})

/** `fetch` whose connections all lead to one port of this machine, while its requests keep the host of their URL. */
export function fetchThrough(port: number): typeof fetch {
  const agent = new Agent({
    connect: (options, callback) => dial({ ...options, hostname: '127.0.0.1', port: String(port) }, callback),
  })
  const sendThrough = (input: unknown, init: object | undefined): Promise<unknown> =>
    send(input as string, { ...init, dispatcher: agent })
  return sendThrough as typeof fetch
}
