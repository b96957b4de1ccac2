import type { RunEnvelope, RunEventType } from '../../contracts/events.ts'
import type { Terminal } from '../terminal/terminal.ts'
import type { ViewOptions } from '../view/command-view.ts'
import { createEventView } from '../view/event-view.ts'

/** Text of the progress line after an event. */
const NEXT: Partial<Record<RunEventType, string>> = {
  'run.queued': 'waiting for a sandbox',
  'policy.settings_trusted': 'waiting for a sandbox',
  'policy.settings_ignored': 'waiting for a sandbox',
  'run.started': 'waiting for a sandbox',
  'sandbox.selected': 'waiting for a sandbox',
  'subtask.pending_capacity': 'waiting for room in the cluster',
  'sandbox.execution_pod.bound': 'starting the agent',
  'workspace.cloning': 'cloning the repository',
  'setup.command': 'running the setup commands',
  'setup.ended': 'starting the agent',
  'tool.call': 'waiting for the tool',
  'command.output': 'the command is running',
  'shell.approval_required': 'waiting for a decision',
  'tool.approval_required': 'waiting for a decision',
  'agent.question_asked': 'waiting for an answer',
  'sandbox.execution_pod.released': 'the run is ending',
}

export type PresenterOptions = ViewOptions & { readonly json: boolean }

/** Shows events: as text lines, or as JSON Lines with the run's id. */
export function createPresenter(terminal: Terminal, options: PresenterOptions) {
  const { paint, width } = terminal
  const view = createEventView({ paint, width }, options)
  return (runId: string, envelope: RunEnvelope): void => {
    if (options.json) terminal.json({ runId, ...envelope })
    else terminal.print(view(envelope))
    terminal.progress.waitFor(NEXT[envelope.event.type] ?? 'waiting for the agent')
  }
}
