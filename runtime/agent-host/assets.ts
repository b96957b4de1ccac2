import { fileURLToPath } from 'node:url'
import { readAgentPolicy } from '../../policies/agent/load.ts'
import { readGrammarModules } from '../governance/shell/grammar.ts'

/** Files that AgentHost reads next to its code. In a bundle, `tools/bundle.ts` embeds them instead. */
export const assets = {
  agentPolicy: readAgentPolicy,
  grammarModules: readGrammarModules,
  runnerEntry: fileURLToPath(new URL('../runner/server.ts', import.meta.url)),
}
