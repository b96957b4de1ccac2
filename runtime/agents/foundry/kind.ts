import { PROXY_IDENTITY } from '../../../contracts/egress.ts'
import { SandboxError } from '../../kit/errors.ts'
import type { AgentKind } from '../kind.ts'
import { proxiedModel } from '../proxied-model.ts'
import { charterOf, invalidRequest, offeredModel, requiredModel } from '../requested-model.ts'

/** A model of the Azure AI resource of this deployment. The egress proxy calls it with its own Azure identity. */
export const foundry = {
  resolve: (request, operator) => {
    const { foundryUrl: server, egressUrl } = operator
    if (!server) {
      throw invalidRequest(
        'an agent of kind foundry needs an Azure AI resource, which only a service in a cluster on Azure has, with the egress proxy. Name the resource in the stack file (model), run "pulumi up" and "npm run environment", and add models.foundry to the environment file',
      )
    }
    // A request is admitted before the address of the proxy is known.
    const model = { name: offeredModel(request, operator), baseUrl: egressUrl ?? server, server }
    return { agent: { kind: 'foundry', model, ...charterOf(request) }, credential: { kind: 'none' } }
  },
  route: (request, { foundryUrl: upstream, serverTools }) =>
    upstream === undefined
      ? undefined
      : {
          ...{ upstream, header: 'authorization', models: [requiredModel(request)] },
          credential: PROXY_IDENTITY,
          ...(serverTools && { serverTools }),
        },
  create: async ({ model, charter }, given) => {
    const { name, baseUrl, server } = model
    if (server === baseUrl)
      throw new SandboxError('configure_failed', 'An agent of kind foundry needs the egress proxy')
    const { deps, ...calls } = proxiedModel(model, given)
    const { createCopilotAgent } = await import('../copilot/copilot-agent.ts')
    return createCopilotAgent(
      {
        name,
        charter,
        server: `The model server at ${server}`,
        credential: 'the role of the Azure identity of the egress proxy on this resource',
        ...calls,
      },
      deps,
    )
  },
} satisfies AgentKind<'foundry'>
