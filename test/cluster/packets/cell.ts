/**
 * Result of one attempt. `dropped`: no response before the timeout. `name …`: the lookup failed, so no connection was
 * tried.
 */
export type Outcome =
  | 'open'
  | 'refused'
  | 'dropped'
  | 'unreachable'
  | 'name refused'
  | 'name unknown'
  | 'name dropped'

/** One attempt: a new connection, or one datagram that requires a response. */
export interface Cell {
  readonly protocol: 'TCP' | 'UDP'
  /** An address, or a name that is looked up first, as a program would. */
  readonly host: string
  readonly port: number
}

export const cellName = ({ protocol, host, port }: Cell): string => `${host}:${port}/${protocol}`
