/**
 * Limits that a process needs at its start. They are apart from the schemas that use them, because building those
 * schemas takes milliseconds.
 */

/** Limits of the workspace engine. */
export const FILE_LIMITS = {
  maxReadBytes: 16_777_216,
  maxWriteBytes: 16_777_216,
  maxPathBytes: 4096,
  grepDefault: 50,
  grepMax: 500,
  filesDefault: 200,
  filesMax: 1000,
  searchTimeoutMs: 5000,
  searchMaxFileBytes: 4_194_304,
  listPage: 1000,
  maxArchiveBytes: 1_073_741_824,
  maxArchiveEntries: 200_000,
} as const

export const DECISION_LIMITS = {
  /** A call without a decision within this time is denied. */
  decisionTimeoutMs: 30_000,
  /** The API acknowledges events as soon as this time has passed or this many events have arrived. */
  ackEveryMs: 200,
  ackEveryEvents: 256,
  /** Events and bytes kept until they are acknowledged. A full outbox pauses the turn. */
  outboxEvents: 4096,
  outboxBytes: 33_554_432,
  /** Decisions kept for calls that AgentHost has not made yet. */
  earlyDecisions: 1024,
} as const

export const CONFIGURE_LIMITS = {
  maxBodyBytes: 8_388_608,
  timeoutMs: 30_000,
  maxSessionBytes: 67_108_864,
} as const

/** Interval of keep-alive comments on an idle stream. */
export const HEARTBEAT_MS = 15_000
