import { constants } from 'node:os'
import koffi from 'koffi'
import { SandboxError } from '../kit/errors.ts'

/** The C library of this process. Loaded on the first call, because AgentHost on a laptop does not need it. */
let loaded: ReturnType<typeof koffi.load> | undefined
export const libc = () => {
  loaded ??= koffi.load(null)
  return loaded
}

const NAMES = new Map(Object.entries(constants.errno).map(([name, number]) => [number, name]))

/** Returns the result of a call. If it is negative, throws with errno. */
export function expectSuccess(answer: number, call: string): number {
  if (answer >= 0) return answer
  throw failure(koffi.errno(), call)
}

/** For calls that return the error number. */
export function expectZero(answer: number, call: string): void {
  if (answer !== 0) throw failure(answer, call)
}

const failure = (errno: number, call: string) =>
  new SandboxError('isolation_unavailable', `${call} failed: ${NAMES.get(errno) ?? errno}`)
