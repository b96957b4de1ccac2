import { createHash } from 'node:crypto'

/** Leaves room for the number of the call within the maximum length of a call id. */
const MAX_TURN_ID = 100

/**
 * Creates the ids for the calls of one turn. The model's own ids are not used, because a model that repeats an id would
 * get the decision about an earlier call.
 */
export function createCallIds(turnId: string): () => string {
  const turn = turnId.length <= MAX_TURN_ID ? turnId : createHash('sha256').update(turnId).digest('hex')
  let count = 0
  return () => {
    count += 1
    return `${turn}.${count}`
  }
}
