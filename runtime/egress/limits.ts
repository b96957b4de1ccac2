/** The limits of the egress proxy. */
export const EGRESS_LIMITS = {
  connectionsPerRun: 512,
  connections: 8192,
  /** Header of a request, and of each request without TLS. */
  headerBytes: 16_384,
  /** Body of a request to a model, which is judged as a whole. A conversation of a million tokens has about 5 MB. */
  modelBodyBytes: 16 * 1024 ** 2,
  /** TLS record headers and the ClientHello. */
  helloBytes: 16_384,
  /** From the connection to the end of a request's header. */
  headerMs: 10_000,
  /** From a valid token until the control stream has listed its sandbox. */
  listedMs: 3_000,
  /** From the response to CONNECT until the ClientHello was checked. */
  handshakeMs: 10_000,
  /** Between two requests of a connection whose requests the proxy reads. Clients keep theirs for up to a minute. */
  keepAliveMs: 60_000,
  lookupMs: 10_000,
  /** Look-ups of one sandbox at the same time. The process has 32 threads for them. */
  lookupsPerRun: 8,
  dialMs: 10_000,
  /** Without a byte in either direction. */
  idleMs: 600_000,
  /** The same for a client that has ended its side after a request: it may be waiting, or gone. */
  halfClosedMs: 60_000,
  /** Sent and received by one sandbox. */
  bytesPerRun: 64 * 1024 ** 3,
  /** More bytes that a replica may let pass while it waits for a share. */
  bytesBeyondShare: 256 * 1024 ** 2,
  /** Of each direction of a connection, while the reader is slow. */
  bufferBytes: 65_536,
  /** Of all connections. Above it, those with the slowest readers are closed. */
  bufferedBytes: 256 * 1024 ** 2,
  /** How often the bytes of open connections are compared with the limits. */
  meterMs: 1000,
  /** Refusals that are reported one by one. Later ones of other hosts are counted together. */
  reportedRefusals: 64,
  /** When the first repeats of a refusal are reported. The interval doubles with each report. */
  repeatMs: 10_000,
  longestRepeatMs: 600_000,
  /** Reports of refusals of one sandbox. Beyond it, one report says so, and the summary counts the others. */
  refusalReportsPerHour: 200,
  summaryHosts: 64,
} as const
export type EgressLimits = { readonly [K in keyof typeof EGRESS_LIMITS]: number }
