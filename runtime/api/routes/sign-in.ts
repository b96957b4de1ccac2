import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { API_ROUTES } from '../../../contracts/routes.ts'
import { SignInMethods } from '../../../contracts/sign-in.ts'
import { OPEN } from '../http/schemas.ts'

/** Without a credential, because it tells a client how to get one. Everything in it is public. */
export const signInRoutes: FastifyPluginAsyncZod<{ readonly methods: SignInMethods }> = async (
  app,
  { methods },
) => {
  const schema = {
    ...OPEN,
    tags: ['service'],
    operationId: 'readSignInMethods',
    summary: 'Show how a person signs in',
    response: { 200: SignInMethods },
  }
  app.get(API_ROUTES.signIn, { schema }, async () => methods)
}
