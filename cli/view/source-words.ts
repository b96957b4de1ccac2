import type { RunSource } from '../../contracts/events.ts'

const PARTS = { workspace: 'the files', session: 'the conversation' } as const

/** From which checkpoint a run began. */
export const sourceWords = ({ runId, checkpointAt, copied }: RunSource): string =>
  `${copied.map((part) => PARTS[part]).join(' and ')} of ${runId}, checkpoint of ${checkpointAt}`
