/**
 * Bounds and times that a process knows before its first request. Apart from the schemas that they bound: those take
 * milliseconds to build, and a start needs none of them.
 */

/** Bounds of the workspace engine. Search bounds are those of `workspace-and-governance`: §1. */
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
  /** No answer within this time is a denial. */
  decisionTimeoutMs: 30_000,
  /** The API acknowledges at the latest after this time or this many events. */
  ackEveryMs: 200,
  ackEveryEvents: 256,
  /** Events and bytes kept until acknowledged; a full outbox pauses the turn. */
  outboxEvents: 4096,
  outboxBytes: 33_554_432,
  /** Decisions kept for calls that were not made yet. */
  earlyDecisions: 1024,
} as const

export const CONFIGURE_LIMITS = {
  maxBodyBytes: 8_388_608,
  timeoutMs: 30_000,
  maxSessionBytes: 67_108_864,
} as const

/** How often a stream that has nothing to say shows that it lives. */
export const HEARTBEAT_MS = 15_000
