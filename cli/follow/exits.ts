import type { FollowOptions } from './follow-options.ts'

/** Thrown to stop following a run that keeps running. */
export class Left extends Error {
  constructor() {
    super('left the run')
    this.name = 'Left'
  }
}

const CANCEL_TIMEOUT_MS = 15_000

/** Two ways to stop before the run ends: leave it running, or cancel it and wait for its end. */
export function createExits(options: FollowOptions, stop: AbortController) {
  const { terminal, client, runId, suffix } = options
  let isCancelling = false
  let timer: NodeJS.Timeout | undefined

  const words = () => {
    if (options.isEmbedded) return 'The service was started for this command, so the run ends with it.'
    if (isCancelling)
      return `The run is being cancelled. See how it ended: agentweaver show ${runId}${suffix}`
    return `The run continues. Follow it: agentweaver logs -f ${runId}${suffix}`
  }
  const leave = () => {
    if (options.onInterrupt === 'ask') terminal.note(words())
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
