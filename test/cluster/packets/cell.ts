/** What came of one attempt. `dropped` is silence until the time was up; the `name …` ones never got to a connection. */
export type Outcome =
  | 'open'
  | 'refused'
  | 'dropped'
  | 'unreachable'
  | 'name refused'
  | 'name unknown'
  | 'name dropped'

/** One attempt: a new connection, or one datagram that asks for an answer. */
export interface Cell {
  readonly protocol: 'TCP' | 'UDP'
  /** An address, or a name that is looked up first, as a program would. */
  readonly host: string
  readonly port: number
}

export const cellName = ({ protocol, host, port }: Cell): string => `${host}:${port}/${protocol}`
