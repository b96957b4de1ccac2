import type { RoundRequest } from './plan.ts'

/** Rounds that found a defect. The gate repeats them. */
export const FOUND: readonly RoundRequest[] = []
