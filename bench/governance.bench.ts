import { SandboxSettings } from '../contracts/policy.ts'
import { TOOL_ARGUMENTS } from '../contracts/tools.ts'
import { readAgentPolicy } from '../policies/agent/load.ts'
import { createGovernance, type Governance } from '../runtime/governance/governance.ts'
import { loadShellGrammar } from '../runtime/governance/shell/grammar.ts'
import { silentLog } from '../runtime/kit/log.ts'
import { type Bench, type Figure, figure } from './harness.ts'

/** Microseconds at the median, as the quality bar for one decision says. */
const BAR_MICROSECONDS = 50
const ROUNDS = 5000
const WARM_UP = 2000

const facts = { isRealIsolation: true, shell: 'bash', phase: 'work', touched: { secret: false } } as const

const REQUESTS = [
  ['read_file', { path: 'src/components/app.ts', start_line: 1, end_line: 80 }],
  ['run_command', { command: 'npm test -- --run foo 2>&1 | tail -20', directory: 'packages/app' }],
  ['run_command', { command: 'cd src && for f in *.ts; do wc -l "$f"; done; git status --short' }],
  ['run_command', { command: 'sudo sh -c "find . -name node_modules -exec rm -rf {} +"' }],
] as const

/** One decision against the parse of its arguments by their schema alone. */
export const bench: Bench = {
  name: 'governance',
  run: async () => {
    const governance = createGovernance({
      policy: readAgentPolicy(),
      settings: SandboxSettings.parse({}),
      shell: await loadShellGrammar(),
      log: silentLog,
    })
    return REQUESTS.map((_request, index) => decision(governance, index))
  },
}

function decision(governance: Governance, index: number): Figure {
  const [tool, args] = REQUESTS[index % REQUESTS.length] ?? REQUESTS[0]
  const samples = { baseline: [] as number[], value: [] as number[] }
  for (let round = -WARM_UP; round < ROUNDS; round++) {
    const baseline = microseconds(() => TOOL_ARGUMENTS[tool].safeParse(args))
    const value = microseconds(() => governance.decide({ tool, arguments: args }, facts))
    if (round < 0) continue
    samples.baseline.push(baseline)
    samples.value.push(value)
  }
  const what = 'command' in args ? args.command.slice(0, 24) : tool
  return figure({
    name: `governance (${what})`,
    unit: 'µs',
    measure: 'absolute',
    bar: BAR_MICROSECONDS,
    samples,
  })
}

function microseconds(work: () => unknown): number {
  const started = performance.now()
  work()
  return (performance.now() - started) * 1000
}
