import { API_ROUTES } from '../../contracts/routes.ts'
import { SignInMethods } from '../../contracts/sign-in.ts'
import { parseAnswer } from './parse-answer.ts'
import { ProblemError } from './problem-error.ts'
import { createTransport } from './transport.ts'

/** How people sign in to the service at a URL. Sends no credential. */
export async function readSignInMethods(url: string): Promise<SignInMethods> {
  const transport = createTransport({ url, retries: 3 })
  try {
    return parseAnswer(SignInMethods, await transport.read({ method: 'GET', path: API_ROUTES.signIn }))
  } catch (error) {
    // A service of an earlier version.
    if (error instanceof ProblemError && error.status === 404) return {}
    throw error
  }
}
