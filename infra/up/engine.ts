import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { StackNotFoundError } from '@pulumi/pulumi/automation/errors.js'
import { LocalWorkspace } from '@pulumi/pulumi/automation/localWorkspace.js'
import type { Stack } from '@pulumi/pulumi/automation/stack.js'
import { type EngineEvent, findingOf } from '../model/engine-events.ts'
import { BOUNDARY_OUTPUT } from '../model/layers.ts'
import { createProgress } from './progress.ts'
import { type Engine, lossOf, type Outcome, type RaisedStack } from './raise.ts'

/** The policy pack that every change passes: a storage backend enforces none by itself. */
const POLICY_PACK = 'policies/stack'
/** Maximum number of reported problems; Pulumi's own record of the run has the rest. */
const MAX_PROBLEMS = 20
const MAX_LINES = 12

export interface EngineOptions {
  readonly root: string
  readonly secretsProvider: string | undefined
  readonly say: (line: string) => void
  readonly signal: AbortSignal
}

/** The engine of the Pulumi CLI on the path, used through the Automation API, with the project's own program. */
export async function openEngine({
  root,
  secretsProvider,
  say,
  signal,
}: EngineOptions): Promise<Engine & AsyncDisposable> {
  const settings = secretsProvider === undefined ? {} : { secretsProvider }
  const select = async (stackName: string): Promise<Stack | undefined> => {
    try {
      return await LocalWorkspace.selectStack({ stackName, workDir: root }, settings)
    } catch (error) {
      if (error instanceof StackNotFoundError) return undefined
      throw error
    }
  }
  const workspace = await LocalWorkspace.create({ workDir: root })
  const selected = (await workspace.stack())?.name
  const common = { policyPacks: [POLICY_PACK], color: 'never' as const, suppressProgress: true, signal }
  const run = async (
    change: (onEvent: (event: EngineEvent) => void) => Promise<Outcome>,
  ): Promise<Outcome> => {
    const findings = new Set<string>()
    try {
      return await change((event) => {
        for (const finding of findingOf(event)) findings.add(finding)
      })
    } catch (error) {
      return failureOf(error, [...findings])
    }
  }
  const raised = (stack: Stack): RaisedStack => ({
    preview: () =>
      run(async (onEvent) => {
        const losses: string[] = []
        const { changeSummary } = await stack.preview({
          ...common,
          onEvent: (event) => {
            onEvent(event)
            const { op = '', urn = '' } = event.resourcePreEvent?.metadata ?? {}
            const loss = lossOf(op, urn)
            if (loss !== undefined) losses.push(loss)
          },
        })
        return { changes: changeSummary, losses }
      }),
    up: () =>
      run(async (onEvent) => {
        const progress = createProgress(say)
        const { summary } = await stack.up({
          ...common,
          showSecrets: false,
          onEvent: (event) => {
            onEvent(event)
            progress(event)
          },
        })
        return { changes: summary.resourceChanges ?? {}, losses: [] }
      }),
  })
  return {
    async open(name, mayCreate) {
      const stack = await select(name)
      if (stack !== undefined) return raised(stack)
      if (!mayCreate) return undefined
      const made = await LocalWorkspace.createStack({ stackName: name, workDir: root }, settings)
      say('  made the stack')
      return raised(made)
    },
    async hasBoundary(name) {
      const stack = await select(name)
      return stack !== undefined && BOUNDARY_OUTPUT in (await stack.outputs())
    },
    /** The Automation API selects each stack that it uses, so the previous selection is restored. */
    async [Symbol.asyncDispose]() {
      if (selected !== undefined) await workspace.selectStack(selected)
      else await promisify(execFile)('pulumi', ['stack', 'unselect', '--non-interactive'], { cwd: root })
    },
  }
}

/** What the CLI printed as errors, or at all, of an error of the Automation API, whose text holds all of a call. */
export function saidBy(error: unknown): readonly string[] {
  const text = error instanceof Error ? error.message : String(error)
  const [, out = '', err = ''] = /stdout: ([\s\S]*?)\n stderr: ([\s\S]*?)\n err\?:/.exec(text) ?? ['', text]
  const lines = (err.trim() === '' ? out : err).split('\n').map((line) => line.trim())
  return lines.filter((line) => line !== '').slice(-MAX_LINES)
}

/** Returns the engine's reasons by resource, or the end of the printed output if the engine reported none. */
function failureOf(error: unknown, findings: readonly string[]): Outcome {
  const said = error instanceof Error ? error.message : String(error)
  const isLocked = /currently locked by/.test(said)
  const shown = findings.slice(0, MAX_PROBLEMS)
  const rest = findings.length - shown.length
  if (shown.length > 0 && !isLocked)
    return { problems: [...shown, ...(rest > 0 ? [`and ${rest} more`] : [])], isLocked }
  return { problems: saidBy(error), isLocked }
}
