import type { RunEnvelope, RunEvent, RunEventType } from '../../contracts/events.ts'
import { duration } from '../terminal/duration.ts'
import { harmlessLine, readable, visible } from '../terminal/visible.ts'
import { budgetWords, egressBudgetWords } from './budget-words.ts'
import { capacityWords } from './capacity-words.ts'
import { changeLines } from './change-lines.ts'
import { type CommandView, createCommandView, type ViewOptions } from './command-view.ts'
import { OutputLines } from './output-lines.ts'
import { requestWords } from './request-words.ts'
import { restrictionWords } from './restriction-words.ts'
import { head, type Look, quote, row } from './row.ts'
import { acceptWords, ignoredWords, trustedWords } from './settings-words.ts'
import { sourceWords } from './source-words.ts'
import { usageWords } from './usage-words.ts'

type DataOf<T extends RunEventType> = Extract<RunEvent, { type: T }>['data']
type Renderers = { readonly [T in RunEventType]?: (data: DataOf<T>, at: string) => string[] }

/** Tools with a separate event. Their calls are not shown. */
const QUIET_TOOLS = new Set(['report_intent', 'ask_question', 'report_outcome'])
/** Tools whose result is shown, with the number of lines. */
const SHOWN_ANSWERS: Readonly<Record<string, number>> = { grep_search: 6, file_search: 6 }

/** Turns a run's events into text lines, in order. Keeps only the state that later lines need. */
export function createEventView(look: Look, options: ViewOptions = {}): (envelope: RunEnvelope) => string[] {
  const commands = createCommandView(look, options)
  const renderers: Renderers = {
    ...runRenderers(look),
    ...setupRenderers(look, commands),
    ...workspaceRenderers(look),
    ...settingsRenderers(look, options.suffix ?? ''),
    ...toolRenderers(look, commands),
    'command.output': commands.output,
    'command.exited': commands.exited,
    ...decisionRenderers(look),
    ...messageRenderers(look),
  }
  return ({ event, at }) => {
    const render = renderers[event.type] as ((data: unknown, at: string) => string[]) | undefined
    return render?.(event.data, at) ?? []
  }
}

function runRenderers(look: Look): Renderers {
  const { paint } = look
  let queuedAt: number | undefined
  /** What failed the last turn. A run that fails for the same reason does not repeat the text. */
  let turnFailure: string | undefined
  return {
    'run.queued': ({ task, source }, at) => {
      queuedAt = Date.parse(at)
      return [
        ...row(look, ['task', 'bold'], readable(task).trim()),
        ...(source ? row(look, 'source', sourceWords(source)) : []),
      ]
    },
    'sandbox.selected': ({ backend, isRealIsolation, shell, reason }) =>
      row(
        look,
        'isolation',
        `${isRealIsolation ? backend : paint.red(`${backend}, not isolated`)}${shell ? `, ${shell}` : ''}  ${paint.dim(visible(reason))}`,
      ),
    'sandbox.execution_pod.bound': ({ podName, launch, bindMs }) =>
      row(look, 'sandbox', `${podName}  ${paint.dim(`${launch}, bound in ${duration(bindMs)}`)}`),
    'sandbox.warning': ({ message }) => row(look, ['warning', 'yellow'], visible(message)),
    'egress.denied': ({ host, port, method, reason, remedy, count }) =>
      row(
        look,
        ['network', 'yellow'],
        `${visible(`${method === undefined ? '' : `${method} `}${host}:${port} refused${count > 1 ? ` ${count} times` : ''}: ${reason}.`)} ${paint.dim(visible(remedy))}`,
      ),
    'egress.anomaly': ({ host, port, reason }) =>
      row(look, ['network', 'yellow'], visible(`${port === 0 ? host : `${host}:${port}`}: ${reason}`)),
    'egress.budget': (data) => row(look, ['network', 'yellow'], visible(egressBudgetWords(data))),
    'egress.allowed': ({ host, by, reason }) =>
      row(look, 'network', `${visible(`${by} allowed ${host}`)}  ${paint.dim(visible(reason))}`),
    'egress.credential_used': ({ credentialId, host }) =>
      row(look, 'network', `used the credential ${credentialId} for ${visible(host)}`),
    'egress.pushed': ({ repository, ref, commit }) =>
      row(look, 'network', `pushed ${commit.slice(0, 12)} to ${visible(`${ref} of ${repository}`)}`),
    'subtask.pending_capacity': (data, at) => row(look, ['waiting', 'yellow'], capacityWords(data, at)),
    'run.suspended': () =>
      row(look, ['suspended', 'yellow'], 'The sandbox is released until the run continues.'),
    'run.interrupted': ({ message }) => row(look, ['interrupted', 'yellow'], message),
    'run.resumed': (data) => row(look, 'resumed', resumedText(data)),
    'run.restricted': (data) => row(look, ['restricted', 'yellow'], restrictionWords(data)),
    'run.budget': (data) => row(look, ['budget', 'yellow'], budgetWords(data.kind, data)),
    'run.outcome': ({ outcome, summary }) =>
      row(look, ['outcome', 'bold'], `${outcome}${summary ? `: ${readable(summary)}` : ''}`),
    'turn.ended': ({ state, code, message }) => {
      turnFailure = message
      if (state !== 'failed') return []
      return row(look, ['turn', 'red'], `failed: ${visible(message ?? 'no reason was given')} (${code})`)
    },
    'run.failed': ({ code, message }) =>
      row(
        look,
        ['failed', 'red'],
        `${message === turnFailure ? 'the last turn failed' : visible(message)} (${code})`,
      ),
    'run.cancelled': ({ by }) => row(look, ['cancelled', 'yellow'], `by ${visible(by)}`),
    done: ({ state }, at) => {
      const took = queuedAt === undefined ? '' : ` in ${duration(Date.parse(at) - queuedAt)}`
      return row(look, ['done', state === 'succeeded' ? 'green' : 'red'], state + took)
    },
  }
}

const resumedText = ({ generation, isEgressChanged }: DataOf<'run.resumed'>) =>
  `in sandbox number ${generation}${isEgressChanged ? '; what its commands may reach has changed' : ''}`

function setupRenderers(look: Look, commands: CommandView): Renderers {
  const { paint } = look
  return {
    'setup.command': ({ commandId, command, number, of }) => {
      commands.named(commandId)
      return row(look, ['setup', 'cyan'], `${visible(command)}  ${paint.dim(`${number} of ${of}`)}`)
    },
    'setup.ended': ({ succeeded, durationMs }) =>
      row(
        look,
        succeeded ? 'setup' : ['setup', 'red'],
        `${succeeded ? 'done' : 'failed'} in ${duration(durationMs)}`,
      ),
  }
}

function workspaceRenderers(look: Look): Renderers {
  const { paint } = look
  let cloneStep: string | undefined
  return {
    'workspace.prepared': (data) => row(look, 'workspace', preparedWords(data, look)),
    'workspace.cloning': ({ step }) => {
      if (step === cloneStep) return []
      cloneStep = step
      return row(look, 'clone', paint.dim(visible(step)))
    },
    'workspace.cloned': (data) => row(look, 'workspace', clonedWords(data, look)),
    'workspace.usage': (data) =>
      row(look, data.level >= 80 ? ['workspace', 'yellow'] : 'workspace', usageWords(data)),
    'workspace.held': (data) => row(look, ['held', 'yellow'], heldWords(data)),
    'workspace.handoff': ({ path, kind }) =>
      row(look, ['hand-off', 'yellow'], `${visible(path)}  ${paint.dim(visible(kind))}`),
    'workspace.results': (data) => row(look, 'changes', resultWords(data)),
  }
}

/** Describes the run's folder or copy, and what in it is read-only or missing. */
function preparedWords(
  { mode, path, files, hasUncommittedChanges, readOnly, unreadable }: DataOf<'workspace.prepared'>,
  { paint }: Look,
): string {
  const kept = readOnly.length === 0 ? '' : `; read-only: ${visible(readOnly.join(', '))}`
  if (mode === 'in-place') return `${visible(path)} itself, with a private git directory${kept}`
  const own = hasUncommittedChanges ? ', with your uncommitted changes' : ''
  const missing = unreadable ? `; not readable: ${visible(unreadable.names.join(', '))}` : ''
  return `a copy of ${visible(path)}${own}  ${paint.dim(`${(files ?? 0).toLocaleString('en')} files${missing}`)}`
}

/** Describes the clone of a repository, and the parts that it lacks. */
function clonedWords(
  { url, branch, ref, commit, files, submodules }: DataOf<'workspace.cloned'>,
  { paint }: Look,
): string {
  const name = branch ?? ref
  const at = name === undefined || name === commit ? commit : `${visible(name)} at ${commit}`
  const missing = submodules > 0 ? `; ${submodules} submodules were not cloned` : ''
  return `a clone of ${visible(url)}, ${at}  ${paint.dim(`${files.toLocaleString('en')} ${files === 1 ? 'file' : 'files'}${missing}`)}`
}

function heldWords({ count, names, isComplete }: DataOf<'workspace.held'>): string {
  const what = count === 1 ? 'git directory' : 'git directories'
  const renamed = `${count} ${what} in your folder renamed to *.agentweaver-held: ${visible(names.join(', '))}`
  const unsearched =
    'The folder is too large or too deep to be searched for git directories. Run no git command below it before you have removed what the run created there.'
  return [...(count > 0 ? [renamed] : []), ...(isComplete ? [] : [unsearched])].join('. ')
}

function resultWords({ files, additions, deletions, problems, keptAt }: DataOf<'workspace.results'>): string {
  const changes = `${files} ${files === 1 ? 'file' : 'files'}, +${additions} -${deletions}`
  const kept = keptAt === undefined ? [] : [`The copy is kept for a week: ${visible(keptAt)}`]
  return [changes, ...problems.map(visible), ...kept].join('\n')
}

function settingsRenderers(look: Look, suffix: string): Renderers {
  return {
    'policy.settings_trusted': (data) => row(look, 'settings', trustedWords(data)),
    'policy.settings_ignored': (data) => [
      ...row(look, ['settings', 'yellow'], ignoredWords(data)),
      ...acceptWords(data, suffix).flatMap((words) => row(look, '', words)),
    ],
  }
}

function toolRenderers(look: Look, commands: CommandView): Renderers {
  const { paint } = look
  const refused = new Set<string>()
  return {
    'tool.call': ({ tool, request, redacted }) => {
      if (QUIET_TOOLS.has(tool)) return []
      const words = requestWords(tool, request) + (redacted ? paint.yellow('  (partly redacted)') : '')
      const name = tool === 'run_command' ? [] : [paint.bold(visible(tool))]
      const label = tool === 'run_command' ? 'run' : 'tool'
      return [
        ...row(look, [label, 'cyan'], [...name, words].join('  ')),
        ...quote(look, changeLines(tool, request, paint)),
      ]
    },
    'tool.result': ({ callId, tool, outcome, durationMs }) => {
      if (!outcome.ok)
        return row(look, ['refused', 'yellow'], visible(`${outcome.message} (${outcome.code})`))
      if (QUIET_TOOLS.has(tool)) return []
      if (tool === 'run_command') return commands.ended(callId, outcome.facts, durationMs)
      const lines = outcome.content.replace(/\n$/, '').split('\n').map(visible)
      const shown = SHOWN_ANSWERS[tool]
      if (shown !== undefined) return quote(look, head(lines, shown))
      return row(look, '', paint.dim(`${answerWords(tool, lines)}${duration(durationMs)}`))
    },
    'tool.denied': ({ callId, by, reason }) => {
      refused.add(callId)
      return row(look, ['refused', 'yellow'], `by ${by}: ${visible(reason)}`)
    },
    'tool.error': ({ callId, code, message }) =>
      refused.has(callId) ? [] : row(look, ['refused', 'yellow'], visible(`${message} (${code})`)),
  }
}

function decisionRenderers(look: Look): Renderers {
  const decided = (word: string) => (data: { by?: string | undefined; reason?: string | undefined }) =>
    row(
      look,
      [word, word === 'approved' ? 'green' : 'yellow'],
      [data.by && `by ${visible(data.by)}`, data.reason && visible(data.reason)].filter(Boolean).join(': '),
    )
  return {
    'shell.approval_required': ({ command, matched }) =>
      row(
        look,
        ['approve?', 'yellow'],
        `${visible(command)}  ${look.paint.dim(`rule: ${visible(matched.join(', '))}`)}`,
      ),
    'tool.approval_required': ({ tool, request }) =>
      row(look, ['approve?', 'yellow'], `${visible(tool)}  ${requestWords(tool, request)}`),
    'shell.approved': decided('approved'),
    'tool.approved': decided('approved'),
    'shell.denied': decided('denied'),
    'shell.expired': decided('expired'),
    'tool.expired': decided('expired'),
    'shell.superseded': decided('superseded'),
    'tool.superseded': decided('superseded'),
    'agent.question_asked': ({ question, choices }) => [
      ...row(look, ['question', 'yellow'], readable(question)),
      ...quote(look, (choices ?? []).map(readable)),
    ],
    'agent.question_answered': ({ by }) => row(look, 'answered', `by ${visible(by)}`),
  }
}

function messageRenderers(look: Look): Renderers {
  const output = new OutputLines()
  const begun = new Set<string>()
  const say = (messageId: string, lines: readonly string[]) =>
    lines.flatMap((line) => {
      const label = begun.has(messageId) ? '' : 'says'
      begun.add(messageId)
      return row(look, label, harmlessLine(line, look.paint.isColoured))
    })
  return {
    'agent.intent': ({ intent }) => row(look, ['intent', 'bold'], readable(intent)),
    'agent.message.delta': ({ messageId, text }) => say(messageId, output.take(messageId, text)),
    'agent.message': ({ messageId, text, refusal }) =>
      refusal
        ? row(look, ['refuses', 'yellow'], readable(text))
        : say(messageId, output.knows(messageId) ? output.flush(messageId) : text.trimEnd().split('\n')),
  }
}

const answerWords = (tool: string, lines: readonly string[]): string =>
  tool === 'read_file' ? `${lines.length} lines, ` : ''
