import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { PolicyScope, SandboxSettings, SandboxSettingsPatch } from '../../../contracts/policy.ts'
import { PolicyProposal, ProposalScope, ProposePolicy } from '../../../contracts/policy-proposal.ts'
import { callerOf } from '../http/authenticate.ts'
import { GUARDED, MutationHeaders, problems } from '../http/schemas.ts'
import type { RouteDeps } from './deps.ts'

const tags = ['policy']

/** Settings for future runs. A run keeps the settings that it was started with. */
export const sandboxPolicyRoutes: FastifyPluginAsyncZod<RouteDeps> = async (app, { service, once }) => {
  app.get(
    '',
    {
      schema: {
        ...GUARDED,
        tags,
        operationId: 'getSandboxPolicy',
        summary: 'Read the sandbox policy of the deployment, of a repository or of an owner',
        querystring: PolicyScope,
        response: { 200: SandboxSettings, ...problems(403) },
      },
    },
    async (request) => service.readPolicy(callerOf(request), request.query),
  )

  app.put(
    '',
    {
      schema: {
        ...GUARDED,
        tags,
        operationId: 'replaceSandboxPolicy',
        summary: 'Replace the sandbox policy; omitted settings get their default',
        headers: MutationHeaders,
        querystring: PolicyScope,
        body: SandboxSettingsPatch,
        response: { 200: SandboxSettings, ...problems(403, 409, 415) },
      },
    },
    async (request, reply) => {
      return once(request, reply, (caller) => service.replacePolicy(caller, request.body, request.query))
    },
  )

  app.patch(
    '',
    {
      schema: {
        ...GUARDED,
        tags,
        operationId: 'updateSandboxPolicy',
        summary: 'Change the sandbox policy; omitted settings stay as they are',
        headers: MutationHeaders,
        querystring: PolicyScope,
        body: SandboxSettingsPatch,
        response: { 200: SandboxSettings, ...problems(403, 409, 415) },
      },
    },
    async (request, reply) => {
      return once(request, reply, (caller) => service.mergePolicy(caller, request.body, request.query))
    },
  )

  app.post(
    '/proposal',
    {
      schema: {
        ...GUARDED,
        tags,
        operationId: 'proposeSandboxPolicy',
        summary: "Propose a change of a repository's settings file as a diff; changes nothing",
        querystring: ProposalScope,
        body: ProposePolicy,
        response: { 200: PolicyProposal, ...problems(403, 415) },
      },
    },
    async (request) => service.proposePolicy(callerOf(request), request.body, request.query),
  )
}
