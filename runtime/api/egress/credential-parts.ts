import type { EgressGeneration } from '../../../contracts/egress.ts'
import { present } from '../../kit/present.ts'

/** The state of the process that holds no secret: without placeholders, and without the authority for their hosts. */
export const partOfProxy = ({
  placeholders: _held,
  destinations,
  ...rest
}: EgressGeneration): EgressGeneration => ({
  ...rest,
  destinations: destinations.map(({ authority, ...destination }) =>
    destination.credential !== undefined || authority === undefined
      ? destination
      : { ...destination, authority },
  ),
})

/** The state of the process that inserts credentials: only sandboxes and destinations with one. */
export function partOfBroker({
  brokerPath,
  socketPath: _path,
  destinations,
  ...rest
}: EgressGeneration): EgressGeneration[] {
  const { modelRoute: route } = rest
  const withCredential = destinations.filter(({ credential }) => credential !== undefined)
  if (withCredential.length === 0 && route?.credential === undefined) return []
  const sockets = present({ socketPath: brokerPath, agentHostSocketPath: route?.brokerPath })
  return [{ ...rest, ...sockets, destinations: withCredential }]
}
