import { constants } from 'node:os'

const NAMES = new Map(
  // The first of several names is the usual one (SIGABRT, not SIGIOT).
  Object.entries(constants.signals)
    .reverse()
    .map(([name, number]) => [number, name]),
)

/** The name of signal `number`; one without a name keeps its number. */
export const signalName = (number: number): string => NAMES.get(number) ?? `SIG${number}`
