import type { Examples } from './attempt.ts'
import { CLAIM_EXAMPLES } from './claims.ts'
import { RUNNING_EXAMPLES } from './running.ts'
import { SHAPE_EXAMPLES } from './shape.ts'
import { SURROUNDING_EXAMPLES } from './surroundings.ts'
import { WRITER_EXAMPLES } from './writers.ts'

/** One request that passes and one that fails, for every rule by its name. */
export const EXAMPLES: Examples = {
  ...SHAPE_EXAMPLES,
  ...CLAIM_EXAMPLES,
  ...WRITER_EXAMPLES,
  ...RUNNING_EXAMPLES,
  ...SURROUNDING_EXAMPLES,
}
