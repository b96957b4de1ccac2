import type { EgressState } from '../../contracts/egress.ts'
import type { Log } from '../kit/log.ts'
import { TokenListener } from './cluster/token-listener.ts'
import { TokenVerifier } from './cluster/verify-token.ts'
import { EGRESS_LIMITS } from './limits.ts'
import type { EgressProxy } from './proxy.ts'

type Listen = NonNullable<EgressState['listen']>

const LOOPBACK = '127.0.0.1'

/**
 * The port of this machine for agents, which cannot use a Unix socket. Other users of the machine can connect to it too, so
 * each caller needs a token. Commands cannot: they have a separate loopback interface.
 */
export class LoopbackPort {
  readonly #verifier = new TokenVerifier()
  readonly #listener: TokenListener
  #port: Promise<number> | undefined

  constructor(proxy: EgressProxy, log: Log) {
    this.#listener = new TokenListener({
      proxy,
      verify: (token) => this.#verifier.verify(token),
      closedBy: () => undefined,
      limits: EGRESS_LIMITS,
      onRefused: () => undefined,
      log,
    })
  }

  /** Listens at the first call. Returns the port. */
  use({ port, keys }: Listen): Promise<number> {
    this.#verifier.use(keys)
    this.#port ??= this.#listener.listen(port, LOOPBACK)
    return this.#port
  }
}
