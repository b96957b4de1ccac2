import type { AgentPolicy } from '../../policies/agent/load.ts'
import type { ToolRequest, Touched } from './request.ts'
import { isSecretFile, namesSecretFile } from './secret-files.ts'

export interface TouchTracker {
  readonly touched: Touched
  /** Records a call that was released. `content` is its result, once known. */
  observe(request: ToolRequest, content?: string): void
}

/**
 * Tracks which files a run has read. `before`: the state of an earlier tracker of the run. The state depends only on that
 * and on the observed calls.
 */
export function createTouchTracker(
  policy: Pick<AgentPolicy, 'secretFiles'>,
  before: Touched = { secret: false },
): TouchTracker {
  let touched = before
  return {
    get touched() {
      return touched
    },
    observe: (request, content) => {
      touched = touch(touched, { policy, request, ...(content === undefined ? {} : { content }) })
    },
  }
}

interface Observation {
  readonly policy: Pick<AgentPolicy, 'secretFiles'>
  readonly request: ToolRequest
  readonly content?: string
}

export const touch = (before: Touched, observation: Observation): Touched =>
  before.secret || showsSecret(observation) ? { ...before, secret: true } : before

function showsSecret({ policy: { secretFiles }, request, content }: Observation): boolean {
  const argument = (key: string): string => {
    const given = request.arguments
    const value = typeof given === 'object' && given !== null ? (given as Record<string, unknown>)[key] : ''
    return typeof value === 'string' ? value : ''
  }
  switch (request.tool) {
    case 'read_file':
      return isSecretFile(argument('path'), secretFiles)
    case 'grep_search':
      return (
        isSecretFile(argument('include_pattern'), secretFiles) ||
        (content ?? '').split('\n').some((line) => isSecretFile(line.split(':', 1)[0] ?? '', secretFiles))
      )
    case 'run_command':
      return argument('command')
        .split(/[\s;|&()`$]+/)
        .some((word) => namesSecretFile(word, secretFiles))
    default:
      return false
  }
}
