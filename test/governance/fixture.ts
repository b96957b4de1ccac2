import { SandboxSettings } from '../../contracts/policy.ts'
import { readAgentPolicy } from '../../policies/agent/load.ts'
import { createGovernance, type Governance } from '../../runtime/governance/governance.ts'
import type { RunFacts } from '../../runtime/governance/request.ts'
import { loadShellGrammar } from '../../runtime/governance/shell/grammar.ts'
import { silentLog } from '../../runtime/kit/log.ts'

export const policy = readAgentPolicy()
export const shell = await loadShellGrammar()

export const governanceWith = (settings: Partial<SandboxSettings> = {}): Governance =>
  createGovernance({ policy, settings: SandboxSettings.parse(settings), shell, log: silentLog })

export const someFacts = (facts: Partial<RunFacts> = {}): RunFacts => ({
  isRealIsolation: true,
  shell: 'bash',
  phase: 'work',
  touched: { secret: false },
  ...facts,
})

const defaults = governanceWith()

export const decideCommand = (command: string, governance = defaults, facts = someFacts()) =>
  governance.decide({ tool: 'run_command', arguments: { command } }, facts)
