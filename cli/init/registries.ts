import { EgressHost } from '../../contracts/policy.ts'

/**
 * The host names of URLs in a text. Only names that a settings file accepts are returned, so no other text of a project
 * gets into the file that `init` writes.
 */
export function hostsIn(text: string, before: RegExp): string[] {
  const lines = text.split('\n').filter((line) => before.test(line))
  const hosts = lines.flatMap((line) =>
    [...line.matchAll(/https:\/\/[^\s"'<>\\]+/g)].flatMap(([url]) => hostOf(url)),
  )
  return [...new Set(hosts)].slice(0, MAX_HOSTS)
}

const MAX_HOSTS = 16

function hostOf(url: string): string[] {
  const name = URL.canParse(url) ? new URL(url).hostname : ''
  return EgressHost.safeParse(name).success && !name.startsWith('*.') ? [name] : []
}
