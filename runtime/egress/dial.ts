import { connect, type NetConnectOpts, type Socket } from 'node:net'
import { networkInterfaces } from 'node:os'
import type { EgressDestination, EgressRule } from '../../contracts/egress.ts'
import { deadline } from '../kit/deadline.ts'
import { errnoOf } from '../kit/errors.ts'
import { addressFault, isPrivate, singleAddresses } from './addresses.ts'
import type { Target } from './authority.ts'
import type { EgressLimits } from './limits.ts'
import type { Resolve } from './look-ups.ts'
import { passThrough, type UpstreamProxy } from './upstream-proxy.ts'

export type Dialled =
  | { readonly ok: true; readonly socket: Socket }
  /** The policy forbids the addresses of the host. */
  | { readonly ok: false; readonly rule: EgressRule; readonly reason: string }
  /** The network failed. */
  | { readonly ok: false; readonly rule?: undefined; readonly reason: string }

export interface Dialler {
  readonly resolve: Resolve
  readonly limits: EgressLimits
  /** The company's proxy, through which hosts without `addresses` are reached. @default they are reached directly */
  readonly upstream?: UpstreamProxy | undefined
  /** @default the addresses of this machine's interfaces */
  readonly ownAddresses?: () => string[]
}

/** What an entry says about the addresses of its host. */
export type Dialable = Pick<EgressDestination, 'addresses'> & {
  readonly isPrivateAllowed?: boolean | undefined
  /** The connection is not encrypted, so it must not leave a private network. */
  readonly mustBePrivate?: boolean
}

const addressesOfInterfaces = () =>
  Object.values(networkInterfaces()).flatMap((each) => each?.map(({ address }) => address) ?? [])

const MAX_ADDRESSES = 8

/**
 * Resolves the host, checks every address, and connects to a checked address. Behind a company's proxy, that proxy resolves
 * the name, so its addresses cannot be checked.
 */
export function dial(dialler: Dialler, target: Target, destination: Dialable): Promise<Dialled> {
  const { upstream, limits } = dialler
  return upstream && !isPrivateEndpoint(destination)
    ? passThrough(upstream, target, limits)
    : dialDirectly(dialler, target, destination)
}

const isPrivateEndpoint = ({ addresses, mustBePrivate }: Dialable): boolean =>
  addresses !== undefined || mustBePrivate === true

async function dialDirectly(dialler: Dialler, target: Target, destination: Dialable): Promise<Dialled> {
  const found = await addressesOf(dialler, target, destination)
  if (!Array.isArray(found)) return found
  const own = (dialler.ownAddresses ?? addressesOfInterfaces)()
  // One forbidden address is enough: a public host has none, and the next response may have only that one.
  for (const address of found) {
    const fault = faultOf(address, own, destination)
    if (fault)
      return { ok: false, rule: 'address', reason: `the host has the address ${address}, and ${fault}` }
  }
  let failure = 'the host has no address'
  for (const address of found.slice(0, MAX_ADDRESSES)) {
    const socket = await connectTo({ address, port: target.port }, dialler.limits)
    if (typeof socket !== 'string') return { ok: true, socket }
    failure = socket
  }
  return { ok: false, reason: failure }
}

function faultOf(
  address: string,
  own: readonly string[],
  { addresses: allowed, isPrivateAllowed, mustBePrivate }: Dialable,
): string | undefined {
  return mustBePrivate && !isPrivate(address)
    ? 'http without TLS may only lead to a private address'
    : addressFault({ address, own, allowed, isPrivateAllowed })
}

async function addressesOf(
  { resolve, limits }: Dialler,
  { host }: Target,
  { addresses }: Dialable,
): Promise<string[] | Dialled> {
  if (host.kind === 'address') return [host.name]
  const single = addresses && singleAddresses(addresses)
  if (single) return single
  try {
    return await deadline('the look-up', limits.lookupMs, resolve(host.name))
  } catch (error) {
    return { ok: false, reason: `the name cannot be resolved (${errnoOf(error) ?? 'no answer in time'})` }
  }
}

/** Returns the connection, or the reason of the failure. Only an address is dialled, so nothing is resolved again. */
function connectTo(
  { address, port }: { address: string; port: number },
  { dialMs, bufferBytes }: EgressLimits,
): Promise<Socket | string> {
  const { promise, resolve } = Promise.withResolvers<Socket | string>()
  const socket = connect({
    host: address,
    port,
    allowHalfOpen: true,
    noDelay: true,
    highWaterMark: bufferBytes,
  } as NetConnectOpts)
  const fail = (reason: string) => {
    socket.destroy()
    resolve(reason)
  }
  const timer = setTimeout(() => fail('the host does not answer'), dialMs)
  const onError = (error: Error) => fail(`the connection failed (${errnoOf(error) ?? error.message})`)
  socket.once('error', onError)
  socket.once('connect', () => {
    clearTimeout(timer)
    socket.off('error', onError)
    resolve(socket)
  })
  return promise.finally(() => clearTimeout(timer))
}
