import { createHash } from 'node:crypto'

/** What a contract id leaves for a turn's id beside the number of the call. */
const MAX_TURN_ID = 100

/**
 * Ids for the calls of one turn. The model's own ids are not used: a model that repeats one would be given the
 * decision about an earlier call.
 */
export function createCallIds(turnId: string): () => string {
  const turn = turnId.length <= MAX_TURN_ID ? turnId : createHash('sha256').update(turnId).digest('hex')
  let count = 0
  return () => {
    count += 1
    return `${turn}.${count}`
  }
}
