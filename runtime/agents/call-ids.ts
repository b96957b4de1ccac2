import { createHash } from 'node:crypto'

/** Leaves room for the number of the call within the maximum length of a call id. */
const MAX_TURN_ID = 100

/**
 * Creates the ids for the calls of one turn. The model's own ids are not used, because a model that repeats an id would
 * get the decision about an earlier call. A turn may continue in a later sandbox of its run, so ids contain the number of
 * that sandbox: the control plane never sees one id for two calls.
 */
export function createCallIds(turnId: string, generation: number): () => string {
  const turn = turnId.length <= MAX_TURN_ID ? turnId : createHash('sha256').update(turnId).digest('hex')
  const prefix = generation === 1 ? turn : `${turn}.g${generation}`
  let count = 0
  return () => {
    count += 1
    return `${prefix}.${count}`
  }
}
