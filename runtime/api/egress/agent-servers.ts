import { RequestedAgent } from '../../../contracts/agents.ts'
import { connectsItself } from '../../agents/registry.ts'
import type { ServersOf } from './control-state.ts'
import type { NetworkRules } from './network-rules.ts'

/** The servers of agents that connect to them by themselves, which they can do only through the proxy. */
export const serversOf =
  ({ ofAgentHost }: Pick<NetworkRules, 'ofAgentHost'>): ServersOf =>
  ({ agentSpec }) =>
    agentSpec !== null && connectsItself(RequestedAgent.parse(agentSpec)) ? ofAgentHost : undefined
