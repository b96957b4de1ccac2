type Announcement = {
  readonly url: string
  readonly apiKeyFile: string | undefined
  readonly pid: number
}

/** What is printed when the service listens: for people what to do next, for programs one line of JSON. */
export function announcement(format: 'text' | 'json', { url, apiKeyFile, pid }: Announcement): string {
  if (format === 'json') return `${JSON.stringify({ url, apiKeyFile, pid })}\n`
  const key = apiKeyFile
    ? `Your API key is in ${apiKeyFile}`
    : 'It knows the API keys of its store; their owners have them'
  return `Agentweaver Sandbox listens on ${url}
${key}

Next, in another terminal:
  npx agentweaver run "fix the failing test" --workspace DIR
  npx agentweaver doctor

The interface: ${url}/openapi.json. Ctrl-C stops the service.
`
}
