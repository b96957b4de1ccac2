import type { Plan, PlanStep } from '../../contracts/agents.ts'

export const TASK = 'The price of a parcel at the edge of a weight band is wrong. Find out why and fix it.'

/** Extra instructions for a real model, so that its run shows the same features. */
export const MODEL_CHARTER = `You work in a small JavaScript project without dependencies.
State your intent with report_intent first. Look around, run the tests with "node --test", fix the cause with the
smallest change, and run the tests again. Delete the stale folder build/ with "rm -rf build". Finish with
report_outcome.`

export const TEST_COMMAND = 'node --test --test-reporter=spec'
export const CLEAN_COMMAND = 'rm -rf build'
export const ENV_COMMAND = 'env | sort'
export const OUTSIDE_PATH = '../secret.txt'
export const FIXED_FILE = 'src/price.js'
export const NETWORK_EXIT_CODE = 7

const BUG = 'bands.find(({ maxGrams }) => grams < maxGrams)'
export const FIX = 'bands.find(({ maxGrams }) => grams <= maxGrams)'

/** Requests a page from a server on the host. The exit code shows that the server was unreachable. */
export const networkCommand = (url: string): string =>
  `node -e 'fetch("${url}").then(() => console.log("the network answered"), (error) => {` +
  ` console.log("unreachable:", error.cause?.code ?? error.message); process.exitCode = ${NETWORK_EXIT_CODE} })'`

const tool = (name: string, given: Record<string, unknown>): PlanStep => ({
  kind: 'tool',
  tool: name,
  arguments: given,
})
const run = (command: string) => tool('run_command', { command })

/** The scripted agent's solution of the task, and three attempts that the sandbox must refuse. */
export function demoPlan(hostUrl: string): Plan {
  return {
    turns: [
      [
        tool('report_intent', { intent: 'Find out why a parcel at the edge of a band is priced wrong.' }),
        tool('file_search', { pattern: '**/*.js' }),
        tool('grep_search', { pattern: 'maxGrams', include_pattern: 'src/**' }),
        tool('read_file', { path: FIXED_FILE }),
        run(TEST_COMMAND),
        tool('report_intent', { intent: 'Remove the stale table, then let the limit belong to its band.' }),
        run(CLEAN_COMMAND),
        tool('str_replace_editor', { path: FIXED_FILE, old_str: BUG, new_str: FIX }),
        run(TEST_COMMAND),
        tool('report_intent', { intent: 'Try what no agent should be able to do.' }),
        tool('read_file', { path: OUTSIDE_PATH }),
        run(networkCommand(hostUrl)),
        run(ENV_COMMAND),
        tool('report_outcome', {
          outcome: 'succeeded',
          summary: 'A parcel of exactly the limit of a band now belongs to it; all tests pass.',
        }),
      ],
    ],
  }
}
