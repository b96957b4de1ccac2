import type { AgentHostClient } from '../../../agent-host-client/client.ts'
import { withTimeout } from '../../../kit/deadline.ts'
import type { Log } from '../../../kit/log.ts'

/** How long a cancelled turn may take to end by itself. */
const CANCEL_GRACE_MS = 800

type Stopping = {
  readonly client: AgentHostClient
  readonly turnId: string
  /** Settles when the turn has ended. */
  readonly ended: Promise<unknown>
}

/** Cancels a turn and gives it a moment to end by itself, so that its last events are kept. */
export async function stopTurn({ client, turnId, ended }: Stopping, log: Log): Promise<void> {
  const signal = withTimeout(CANCEL_GRACE_MS)
  const timedOut = new Promise<void>((resolve) =>
    signal.addEventListener('abort', () => resolve(), { once: true }),
  )
  const cancelled = client.turns.cancel(turnId, signal).then(() => ended)
  await Promise.race([cancelled, timedOut]).catch((error) => log.warn('the turn did not cancel', { error }))
}
