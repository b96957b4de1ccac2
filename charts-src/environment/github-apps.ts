import type { Environment } from './schema.ts'

/** Servers at which the API creates tokens of GitHub Apps. */
export function gitHubAppServers({ credentials = [] }: Environment['egress']): [string, number][] {
  const urls = credentials.flatMap(({ githubApp }) => (githubApp ? [new URL(githubApp.apiUrl)] : []))
  return urls.map(({ hostname, port }) => [hostname, Number(port || 443)])
}
