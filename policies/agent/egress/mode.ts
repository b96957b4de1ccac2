import { isOnContentNetwork } from './content-networks.ts'
import { limitsRequests, type RequestLimits } from './requests.ts'

export interface TlsChoice extends RequestLimits {
  readonly host: string
  readonly splice?: 'allow' | undefined
  readonly fronting?: 'accepted' | undefined
}

/**
 * How the proxy treats TLS to a destination: it passes it on unread (`splice`), or reads its requests (`terminate`),
 * because the entry limits them, or because another site at the same address could be asked for.
 */
export const modeOf = (destination: TlsChoice): 'splice' | 'terminate' =>
  mustReadRequests(destination) || sharesAddresses(destination) ? 'terminate' : 'splice'

const mustReadRequests = (destination: TlsChoice): boolean =>
  limitsRequests(destination) && destination.splice !== 'allow'

const sharesAddresses = ({ host, fronting }: TlsChoice): boolean =>
  fronting !== 'accepted' && isOnContentNetwork(host)
