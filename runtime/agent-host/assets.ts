import { fileURLToPath } from 'node:url'
import { readAgentPolicy } from '../../policies/agent/load.ts'
import { readGrammarModules } from '../governance/shell/grammar.ts'

/** What AgentHost reads beside its code; a bundle carries it instead (`scripts/bundle.ts`). */
export const assets = {
  agentPolicy: readAgentPolicy,
  grammarModules: readGrammarModules,
  runnerEntry: fileURLToPath(new URL('../runner/server.ts', import.meta.url)),
}
