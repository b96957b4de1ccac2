import { ERROR_STATUS, type ErrorCode } from '../contracts/errors.ts'

/** Exit statuses for scripts. `exec` exits with the status of its command instead. */
export const EXIT = {
  ok: 0,
  runFailed: 1,
  usage: 2,
  notFound: 3,
  unauthenticated: 4,
  unreachable: 5,
  refused: 6,
  interrupted: 130,
} as const
export type ExitStatus = (typeof EXIT)[keyof typeof EXIT]

export const EXIT_STATUS_HELP = `Exit status:
  0  success                     4  key missing or not accepted
  1  the run failed              5  service not reachable
  2  usage or bad input          6  refused or denied
  3  not found                   78  serve: bad settings
                                 130  interrupted`

const BY_HTTP_STATUS: Readonly<Record<number, ExitStatus>> = {
  400: EXIT.usage,
  401: EXIT.unauthenticated,
  403: EXIT.refused,
  404: EXIT.notFound,
  409: EXIT.refused,
  413: EXIT.usage,
  429: EXIT.refused,
}

/** The exit status for an error code of the service. */
export function exitStatusOf(code: ErrorCode): ExitStatus {
  if (code === 'unavailable') return EXIT.unreachable
  return BY_HTTP_STATUS[ERROR_STATUS[code]] ?? EXIT.runFailed
}
