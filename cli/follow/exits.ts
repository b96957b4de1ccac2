import type { FollowOptions } from './follow-run.ts'

/** Ends the following of a run that goes on. */
export class Left extends Error {
  constructor() {
    super('left the run')
    this.name = 'Left'
  }
}

const CANCEL_TIMEOUT_MS = 15_000

/** The two ways out before the run's own end: leave it running, or have it cancelled and see it end. */
export function createExits(options: FollowOptions, stop: AbortController) {
  const { terminal, client, runId, suffix } = options
  let isCancelling = false
  let timer: NodeJS.Timeout | undefined

  const leave = () => {
    if (options.onInterrupt === 'ask')
      terminal.note(
        options.isEmbedded
          ? 'The service was started for this command; the run ends with it.'
          : `The run goes on without you. Follow it: agentweaver logs -f ${runId}${suffix}`,
      )
    stop.abort(new Left())
  }
  return {
    leave,
    cancel() {
      isCancelling = true
      terminal.note(`Asking the service to cancel ${runId}.`)
      terminal.progress.waitFor('the run is ending')
      timer = setTimeout(leave, CANCEL_TIMEOUT_MS)
      client.cancel(runId).catch((error: unknown) => stop.abort(error))
    },
    hasCancelled: () => isCancelling,
    close: () => clearTimeout(timer),
  }
}
