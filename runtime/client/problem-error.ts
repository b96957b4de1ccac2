import { Problem } from '../../contracts/errors.ts'
import { SandboxError } from '../kit/errors.ts'

/** The service's own refusal of a request. */
export class ProblemError extends SandboxError {
  readonly status: number
  /** Finds the request in the service's log. */
  readonly requestId: string | undefined
  /** The fields at fault, where the request was malformed. */
  readonly errors: readonly { readonly field: string; readonly message: string }[]

  constructor(problem: Problem) {
    super(problem.code, problem.detail)
    this.name = 'ProblemError'
    this.status = problem.status
    this.requestId = problem.requestId
    this.errors = problem.errors ?? []
  }
}

/** Reads the problem out of an answer that is not a success, whoever wrote it. */
export async function readProblem(response: Response): Promise<ProblemError> {
  const text = await response.text()
  const problem = Problem.safeParse(parsedOrUndefined(text))
  if (problem.success) return new ProblemError(problem.data)
  return new ProblemError({
    type: 'about:blank',
    title: response.statusText,
    status: response.status,
    code: response.status < 500 ? 'invalid_request' : 'unavailable',
    detail: `The service answered ${response.status} without saying why. Is this an Agentweaver service?`,
  })
}

function parsedOrUndefined(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}
