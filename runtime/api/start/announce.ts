type Announcement = {
  readonly url: string
  readonly socket: string
  readonly stateDir: string
  readonly apiKeyFile: string | undefined
  readonly pid: number
}

/** Text for a service that listens: the next steps for people, or one line of JSON for programs. */
export function announcement(format: 'text' | 'json', service: Announcement): string {
  const { url, socket, stateDir, apiKeyFile, pid } = service
  if (format === 'json') return `${JSON.stringify({ url, socket, apiKeyFile, pid })}\n`
  const key = apiKeyFile
    ? `The API key for browsers and programs is in ${apiKeyFile}`
    : 'Its store has API keys already; their owners have them'
  return `Agentweaver Sandbox listens on ${url} (process ${pid})
Store and keys are in ${stateDir}
${key}

Next, in another terminal:
  agentweaver run "fix the failing test" --workspace DIR
  agentweaver doctor
From a clone, call it in the clone's folder, as npx agentweaver.

The interface: ${url}/openapi.json. Ctrl-C stops the service.
`
}
