import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import { AGENT_HOST_ROUTES } from '../../../contracts/routes.ts'
import type { RunnerLink } from '../toolbox/runner-link.ts'
import type { Commands } from './commands.ts'

const Params = z.object({ id: z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/) })

/** The input of a command has at most 64 MiB; base64 adds a third. */
const MAX_BODY_BYTES = 96 * 1024 * 1024

export function registerCommandsRoute(scope: FastifyInstance, commands: () => Commands): void {
  const url = `${AGENT_HOST_ROUTES.commands}/:id`
  scope.put(url, { bodyLimit: MAX_BODY_BYTES }, async (request, reply) => {
    const { id } = Params.parse(request.params)
    const { HostCommand } = await import('../../../contracts/exec.ts')
    commands().start(id, HostCommand.parse(request.body))
    return reply.code(202).send({ commandId: id })
  })
  scope.delete(url, async (request) => {
    const { id } = Params.parse(request.params)
    return { commandId: id, result: await commands().cancel(id) }
  })
}

const Freeze = z.strictObject({ isFrozen: z.boolean() })

/** `PUT /freeze`: stops every command of the sandbox, or lets them continue. */
export function registerFreezeRoute(scope: FastifyInstance, toolbox: () => Pick<RunnerLink, 'freeze'>): void {
  scope.put(AGENT_HOST_ROUTES.freeze, async (request, reply) => {
    const { isFrozen } = Freeze.parse(request.body)
    await toolbox().freeze(isFrozen)
    return reply.code(204).send()
  })
}
