import { AGENT_LIMITS, type AgentLimits } from '../../runtime/agents/agent.ts'

/** The limits of an agent, with time to start and to stop also on a machine that does a lot of other work. */
export const UNHURRIED: AgentLimits = { ...AGENT_LIMITS, startMs: 120_000, cancelMs: 120_000 }
