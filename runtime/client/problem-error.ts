import { Problem } from '../../contracts/errors.ts'
import { SandboxError } from '../kit/errors.ts'

/** An error response of the service. */
export class ProblemError extends SandboxError {
  readonly status: number
  /** Identifies the request in the service's log. */
  readonly requestId: string | undefined
  /** The invalid fields of a malformed request. */
  readonly errors: readonly { readonly field: string; readonly message: string }[]

  constructor(problem: Problem) {
    super(problem.code, problem.detail)
    this.name = 'ProblemError'
    this.status = problem.status
    this.requestId = problem.requestId
    this.errors = problem.errors ?? []
  }
}

/** Parses an error response, also one that is not from this service (such as a proxy's). */
export async function readProblem(response: Response): Promise<ProblemError> {
  const text = await response.text()
  const problem = Problem.safeParse(parsedOrUndefined(text))
  if (problem.success) return new ProblemError(problem.data)
  return new ProblemError({
    type: 'about:blank',
    title: response.statusText,
    status: response.status,
    code: response.status < 500 ? 'invalid_request' : 'unavailable',
    detail: `The service responded with ${response.status} and gave no reason. Check that the URL is an Agentweaver service.`,
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
