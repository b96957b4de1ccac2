import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import * as z from 'zod'
import {
  AnswerQuestion,
  Approval,
  ApprovalPage,
  ApproveShell,
  ApproveTool,
  DenyShell,
  DenyTool,
  RunId,
} from '../../../contracts/api.ts'
import { callerOf } from '../http/authenticate.ts'
import { MAX_ID_CHARACTERS } from '../http/id-length.ts'
import { GUARDED, MutationHeaders, problems, RunParams } from '../http/schemas.ts'
import type { RouteDeps } from './deps.ts'

const tags = ['decisions']
const deciding = { ...GUARDED, tags, headers: MutationHeaders, params: RunParams }
/** The name and the summary of an operation. */
const named = (operationId: string, summary: string) => ({ operationId, summary })
const response = { 200: Approval, ...problems(403, 404, 409, 415) }

const answerSchema = {
  ...deciding,
  ...named('answerQuestion', 'Answer a question of the agent'),
  params: z.object({ id: RunId, requestId: z.string().min(1).max(MAX_ID_CHARACTERS) }),
  body: AnswerQuestion,
  response: { 204: z.null(), ...problems(404, 409, 415) },
}

/** Decisions of people that a run waits for. */
export const decisionRoutes: FastifyPluginAsyncZod<RouteDeps> = async (app, { service, once }) => {
  app.get(
    '/:id/approvals',
    {
      schema: {
        ...GUARDED,
        tags,
        operationId: 'listRunApprovals',
        summary: 'List approvals and their decisions',
        params: RunParams,
        response: { 200: ApprovalPage, ...problems(404) },
      },
    },
    async (request) => service.listApprovals(callerOf(request), request.params.id),
  )

  app.post(
    '/:id/shell-approvals',
    {
      schema: {
        ...deciding,
        ...named('approveShellCommand', 'Approve a shell command'),
        body: ApproveShell,
        response,
      },
    },
    async (request, reply) => {
      const decision = { outcome: 'approved', ...request.body } as const
      return once(request, reply, (caller) => service.decideShell(caller, request.params.id, decision))
    },
  )

  app.post(
    '/:id/shell-denials',
    {
      schema: {
        ...deciding,
        ...named('denyShellCommand', 'Deny a shell command'),
        body: DenyShell,
        response,
      },
    },
    async (request, reply) => {
      const decision = { outcome: 'denied', ...request.body } as const
      return once(request, reply, (caller) => service.decideShell(caller, request.params.id, decision))
    },
  )

  app.post(
    '/:id/tool-approvals',
    {
      schema: {
        ...deciding,
        ...named('approveToolCall', 'Approve a tool call'),
        body: ApproveTool,
        response,
      },
    },
    async (request, reply) => {
      const decision = { outcome: 'approved', ...request.body } as const
      return once(request, reply, (caller) => service.decideTool(caller, request.params.id, decision))
    },
  )

  app.post(
    '/:id/tool-denials',
    { schema: { ...deciding, ...named('denyToolCall', 'Deny a tool call'), body: DenyTool, response } },
    async (request, reply) => {
      const decision = { outcome: 'denied', ...request.body } as const
      return once(request, reply, (caller) => service.decideTool(caller, request.params.id, decision))
    },
  )

  app.post('/:id/questions/:requestId/answer', { schema: answerSchema }, async (request, reply) => {
    const { id, requestId } = request.params
    await once(request, reply, (caller) =>
      service.answerQuestion(caller, id, { requestId, answer: request.body.answer }),
    )
    return reply.code(204).send(null)
  })
}
