import { AGENT_LIMITS, type AgentLimits } from '../../runtime/agents/agent.ts'

/** Limits of an agent with generous times to start and stop, for busy machines. */
export const GENEROUS_LIMITS: AgentLimits = { ...AGENT_LIMITS, startMs: 120_000, cancelMs: 120_000 }
