import type { PlanStep } from '../../../contracts/agents.ts'
import type { RunPlan, Shape } from './plan.ts'
import { createRandom } from './random.ts'

/** A command of a plan. Each execution creates a file with a unique name that starts with `name`. */
export type Mark = { readonly name: string; readonly command: string; readonly needsApproval: boolean }

export type Script = {
  readonly turns: readonly (readonly PlanStep[])[]
  /** Commands that the agent makes. */
  readonly marks: readonly Mark[]
  /** Commands that a person makes in a sandbox without an agent. */
  readonly commands: readonly Mark[]
}

const MARKS_FOLDER = 'marks'

/** A mark in a folder or in the output of a command: the name of the command, and a unique id of the execution. */
export const MARK = /\bmarks\/([a-z0-9]+)\.([A-Za-z0-9]{10})\b/g

const markCommand = (name: string) => `mkdir -p ${MARKS_FOLDER} && mktemp ${MARKS_FOLDER}/${name}.XXXXXXXXXX`

const step = (tool: string, args: Record<string, unknown>): PlanStep => ({
  kind: 'tool',
  tool,
  arguments: args,
})
const run = ({ command }: Mark): PlanStep => step('run_command', { command, timeout_ms: 60_000 })

const report = step('report_outcome', { outcome: 'succeeded', summary: 'the plan has ended' })

/** The script of a run's agent. The same plan returns the same script. */
export function scriptOf(plan: RunPlan): Script {
  const random = createRandom(plan.seed)
  const marks: Mark[] = []
  const mark = (before = '', after = ''): Mark => {
    const name = `r${plan.index}m${marks.length}`
    const needsApproval = before.includes('rm -rf')
    const made = { name, command: `${before}${markCommand(name)}${after}`, needsApproval }
    marks.push(made)
    return made
  }
  const asks = () => mark(`mkdir -p b${marks.length} && rm -rf b${marks.length} && `)
  const makers: Readonly<Record<Exclude<Shape, 'sandbox'>, () => PlanStep[][]>> = {
    plain: () => [
      [run(mark()), step('report_intent', { intent: 'go on' }), run(mark()), run(mark()), report],
    ],
    chatty: () => [
      [
        { kind: 'say', text: 'a word of many '.repeat(random.int(100, 1_500)) },
        run(mark('', ` && seq 1 ${random.int(100, 3_000)}`)),
        { kind: 'say', text: 'and another '.repeat(random.int(100, 800)) },
        run(mark()),
        report,
      ],
    ],
    approval: () => [[run(mark()), run(asks()), run(mark()), run(asks()), report]],
    question: () => [[run(mark()), step('ask_question', { question: 'Which one?' }), run(mark()), report]],
    interactive: () => [
      [run(mark()), report],
      [run(mark()), run(asks()), report],
      [run(mark()), report],
    ],
    suspend: () => [[run(mark()), run(asks()), run(mark()), report]],
    slow: () => [
      [
        run(mark('', ` && sleep ${random.int(1, 4)} && echo slept`)),
        { kind: 'wait', ms: random.int(100, 2_000) },
        run(mark('', ' && (sleep 30 & echo in the background)')),
        run(mark()),
        report,
      ],
    ],
  }
  if (plan.shape === 'sandbox') {
    const commands = [mark(), mark('', ' && sleep 1 && echo slept'), mark()]
    return { turns: [], marks: [], commands }
  }
  return { turns: makers[plan.shape](), marks, commands: [] }
}
