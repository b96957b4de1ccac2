import { markerOf } from './marker.ts'
import type { Stage } from './stage.ts'

/** Closes a stream for good when a stage fails: the rest is swallowed, since nobody knows what it holds. */
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
