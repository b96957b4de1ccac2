import { isIP } from 'node:net'
import type { Environment } from './schema.ts'

type UpstreamProxy = NonNullable<Environment['egress']['upstreamProxy']>

/** Where the company's proxy is. */
export interface UpstreamPlace {
  readonly host: string
  readonly ports: readonly [number]
  readonly addresses: readonly string[]
}

/** The address in the URL is the only one, unless the environment names others. */
export function upstreamPlace({ url, addresses }: UpstreamProxy): UpstreamPlace {
  const { hostname, port } = new URL(url)
  const host = hostname.replaceAll(/[[\]]/g, '')
  return { host, ports: [Number(port || 80)], addresses: addresses ?? [host] }
}

export function upstreamMistakes(upstreamProxy: UpstreamProxy | undefined): string[] {
  if (upstreamProxy === undefined) return []
  const { host } = upstreamPlace(upstreamProxy)
  const hasAddresses = upstreamProxy.addresses !== undefined
  if (isIP(host) === 0 && !hasAddresses)
    return [
      `egress.upstreamProxy.addresses: is missing, and the network policies need the addresses of ${host}`,
    ]
  return isIP(host) !== 0 && hasAddresses
    ? ['egress.upstreamProxy.addresses: is there, but the URL has an address already']
    : []
}
