import { markerOf } from './marker.ts'
import type { Stage } from './stage.ts'

/** Closes a stream permanently if a stage throws. The rest of the stream is dropped, because it was not checked. */
export function guardStage(stage: Stage, isClosed = false): Stage {
  let hasFailed = isClosed
  const run = (work: () => string): string => {
    if (hasFailed) return ''
    try {
      return work()
    } catch {
      hasFailed = true
      return markerOf('failed')
    }
  }
  return {
    push: (chunk) => run(() => stage.push(chunk)),
    end: () => run(() => stage.end()),
    get isHolding() {
      return hasFailed || stage.isHolding
    },
    copy: () => guardStage(stage.copy(), hasFailed),
  }
}
