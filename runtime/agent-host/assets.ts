import { fileURLToPath } from 'node:url'
import { readAgentPolicyTexts } from '../../policies/agent/load.ts'
import { readGrammarModules } from '../governance/shell/grammar.ts'

/** What AgentHost reads beside its code; a bundle carries it instead (`scripts/bundle.ts`). */
export const assets = {
  agentPolicyTexts: readAgentPolicyTexts,
  grammarModules: readGrammarModules,
  runnerEntry: fileURLToPath(new URL('../runner/server.ts', import.meta.url)),
}
