/** The limits of the egress proxy. */
export const EGRESS_LIMITS = {
  connectionsPerRun: 512,
  connections: 8192,
  /** Header of a request, and of each request without TLS. */
  headerBytes: 16_384,
  /** TLS record headers and the ClientHello. */
  helloBytes: 16_384,
  /** From the connection to the end of a request's header. */
  headerMs: 10_000,
  /** From the response to CONNECT until the ClientHello was checked. */
  handshakeMs: 10_000,
  /** Between two requests of a connection whose requests the proxy reads. Clients keep theirs for up to a minute. */
  keepAliveMs: 60_000,
  lookupMs: 10_000,
  dialMs: 10_000,
  /** Without a byte in either direction. */
  idleMs: 600_000,
  /** Sent and received by one sandbox. */
  bytesPerRun: 64 * 1024 ** 3,
  /** How often the bytes of open connections are compared with the limit. */
  meterMs: 1000,
  /** Refusals that are reported one by one. Later ones of other hosts are counted together. */
  reportedRefusals: 64,
  /** How often repeats of a refusal are reported. */
  repeatMs: 10_000,
  summaryHosts: 64,
} as const
export type EgressLimits = { readonly [K in keyof typeof EGRESS_LIMITS]: number }
