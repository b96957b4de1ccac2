import type { ExecResult } from '../../contracts/exec.ts'
import type { FileErrorCode, FileOperation, FileResult } from '../../contracts/files.ts'
import type { PushedResults } from '../../contracts/push.ts'
import type { FileAnswer } from '../../contracts/toolbox.ts'

/** The result of a command that succeeded. */
export const EXITED: ExecResult = {
  exitCode: 0,
  signal: null,
  timedOut: false,
  outputTruncated: false,
  stdoutBytes: 6,
  stderrBytes: 0,
  reason: 'exit',
  durationMs: 1,
}

const answer = (result: FileResult, payload: Uint8Array = new Uint8Array()): FileAnswer => ({
  result,
  payload,
})
const refuse = (code: FileErrorCode, message: string) => answer({ ok: false, code, message })

/** Replies of an in-memory workspace to file operations. */
export function fileAnswer(
  files: Map<string, Uint8Array>,
  operation: FileOperation,
  payload?: Uint8Array,
): FileAnswer {
  const path = 'path' in operation ? operation.path : ''
  if (path.split('/').includes('..')) return refuse('path_outside', `${path} leads out of the workspace`)
  if (operation.op === 'list') return answer({ ok: true, entries: [...files].map(entryOf) })
  if (operation.op === 'write') {
    if (operation.create === 'exclusive' && files.has(path)) return refuse('exists', `${path} is there.`)
    files.set(path, payload ?? new Uint8Array())
    return answer({ ok: true })
  }
  const content = files.get(path)
  if (!content) return refuse('not_found', `There is no ${path}.`)
  if (operation.op === 'delete') files.delete(path)
  return answer({ ok: true }, content)
}

const entryOf = ([path, { length: size }]: [string, Uint8Array]) =>
  ({ path, type: 'file', size, mtimeMs: 0, mode: 0o644 }) as const

export const pushedTo = (runId: string, branch: string): PushedResults => ({
  runId,
  repository: 'https://git.example/team/app',
  branch: `agentweaver/${runId}/${branch}`,
  commit: 'a'.repeat(40),
})
