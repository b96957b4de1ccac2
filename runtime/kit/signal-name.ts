import { constants } from 'node:os'

const NAMES = new Map(
  // If a number has several names, the first is the usual one (SIGABRT, not SIGIOT).
  Object.entries(constants.signals)
    .reverse()
    .map(([name, number]) => [number, name]),
)

/** The name of a signal, or `SIG<number>` if it has none. */
export const signalName = (number: number): string => NAMES.get(number) ?? `SIG${number}`
