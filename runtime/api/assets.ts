import { readEgressPolicy } from '../../policies/agent/egress/load.ts'
import { readAgentPolicy } from '../../policies/agent/load.ts'
import { readGrammarModules } from '../governance/shell/grammar.ts'

/** Files that the API reads at runtime. A bundle embeds them (`tools/bundle.ts`). */
export const assets = {
  agentPolicy: readAgentPolicy,
  egressPolicy: readEgressPolicy,
  grammarModules: readGrammarModules,
}
