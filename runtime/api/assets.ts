import { readAgentPolicy } from '../../policies/agent/load.ts'
import { readGrammarModules } from '../governance/shell/grammar.ts'

/** What the API reads beside its code; a bundle carries it instead (`scripts/bundle.ts`). */
export const assets = { agentPolicy: readAgentPolicy, grammarModules: readGrammarModules }
