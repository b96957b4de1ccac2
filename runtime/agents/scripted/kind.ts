import type { AgentKind } from '../kind.ts'
import { createScriptedAgent } from './scripted-agent.ts'

export const scripted = {
  isOutcomeOptional: true,
  resolve: (agent) => ({ agent, credential: { kind: 'none' } }),
  create: async ({ plan }, deps) => createScriptedAgent(plan, deps),
} satisfies AgentKind<'scripted'>
