import type { AgentPolicy } from '../../policies/agent/load.ts'
import type { ToolRequest, Touched } from './request.ts'
import { isSecretFile, namesSecretFile } from './secret-files.ts'

export interface TouchTracker {
  readonly touched: Touched
  /** Notes a call that was released; `content` is what it answered, once it did. */
  observe(request: ToolRequest, content?: string): void
}

/** Follows what a run touches. Holds nothing but the facts; every replica that sees the same calls agrees. */
export function createTouchTracker(policy: Pick<AgentPolicy, 'secretFiles'>): TouchTracker {
  let touched: Touched = { secret: false }
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

/** The facts after one more call. */
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
