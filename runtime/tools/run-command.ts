import type { CommandShell, ExecRequest, ExecResult, OutputStream } from '../../contracts/exec.ts'
import { EXEC_LIMITS } from '../../contracts/exec.ts'
import type { SandboxSettings } from '../../contracts/policy.ts'
import { TOOL_ARGUMENTS, type ToolOutcome } from '../../contracts/tools.ts'
import { HeadAndTail } from './head-and-tail.ts'
import { failure, success } from './outcome.ts'
import { defineTool, type Tool, type ToolDeps, type ToolIo } from './tool.ts'

/**
 * Characters of each stream that the model receives, taken from the beginning and the end. Both streams
 * together stay below about 8,000 tokens.
 */
export const COMMAND_CONTENT = { headCharacters: 6000, tailCharacters: 10_000 } as const

export const runCommandTool = ({ toolbox, settings, openFilter }: ToolDeps): Tool =>
  defineTool({
    name: 'run_command',
    description: describe(settings, toolbox.isolation.shell),
    schema: TOOL_ARGUMENTS.run_command,
    run: async ({ command, directory, timeout_ms: timeoutMs }, io) => {
      if (Buffer.byteLength(command) > EXEC_LIMITS.maxCommandBytes) {
        return failure('invalid_arguments', `a command has at most ${EXEC_LIMITS.maxCommandBytes} bytes`)
      }
      if (command.includes('\0')) return failure('invalid_arguments', 'a command must not contain NUL')
      const request: ExecRequest = {
        command,
        directory: directory ?? '.',
        environment: {},
        timeoutMs: timeoutMs ?? EXEC_LIMITS.defaultTimeoutMs,
        maxOutputBytes: settings.max_output_bytes,
        maxWorkspaceBytes: settings.max_workspace_bytes,
        maxWorkspaceFiles: settings.max_workspace_files,
        network: settings.network_enabled,
        readOnly: [],
        denied: [],
        readOnlyRoots: settings.allowed_repository_roots,
      }
      const stdout = openStream('stdout', openFilter(), io)
      const stderr = openStream('stderr', openFilter(), io)
      const result = await toolbox.exec(request, {
        onChunk: (stream, bytes) => (stream === 'stdout' ? stdout : stderr).push(bytes),
        signal: io.signal,
      })
      await stdout.end()
      await stderr.end()
      io.onExit?.(result)
      return outcomeOf(result, { stdout: stdout.kept, stderr: stderr.kept })
    },
  })

const SHELLS = { bash: 'bash', sh: '/bin/sh (there is no bash)' } as const

function describe(settings: SandboxSettings, shell: CommandShell = 'sh'): string {
  const roots = settings.allowed_repository_roots
  return [
    `Run a command line with ${SHELLS[shell]} in the sandbox, in the workspace root or in directory.`,
    'Only the files of the workspace persist between calls: no variables, no background processes.',
    settings.network_enabled ? 'Network access is limited to the allowlist.' : 'There is no network.',
    roots.length > 0 ? `These folders can be read: ${roots.join(', ')}.` : '',
    `The default timeout is ${EXEC_LIMITS.defaultTimeoutMs} ms, the longest ${EXEC_LIMITS.maxTimeoutMs} ms.`,
  ]
    .filter((sentence) => sentence !== '')
    .join(' ')
}

function openStream(name: OutputStream, filter: ReturnType<ToolDeps['openFilter']>, io: ToolIo) {
  const kept = new HeadAndTail(COMMAND_CONTENT.headCharacters, COMMAND_CONTENT.tailCharacters)
  const take = async (text: string) => {
    if (text === '') return
    kept.push(text)
    await io.emitOutput(name, text)
  }
  return { kept, push: (bytes: Uint8Array) => take(filter.push(bytes)), end: () => take(filter.end()) }
}

type Kept = { readonly stdout: HeadAndTail; readonly stderr: HeadAndTail }

/**
 * A command that ran is a success, regardless of its exit code. A command that did not run or was stopped is a
 * failure.
 */
function outcomeOf(result: ExecResult, { stdout, stderr }: Kept): ToolOutcome {
  if (result.reason === 'spawn_failed' || result.reason === 'lost' || result.reason === 'cancelled') {
    return failure(result.reason, result.message ?? WHY[result.reason])
  }
  const content = [
    endOf(result),
    section('stdout', stdout),
    section('stderr', stderr),
    result.outputTruncated ? '[the output exceeded the limit; the rest is lost]' : '',
  ]
  const trimmed = stdout.dropped + stderr.dropped > 0
  return success(content.filter((part) => part !== '').join('\n'), factsOf(result, trimmed))
}

const factsOf = (result: ExecResult, trimmed: boolean) => ({
  exitCode: result.exitCode,
  signal: result.signal,
  timedOut: result.timedOut,
  outputTruncated: result.outputTruncated,
  stdoutBytes: result.stdoutBytes,
  stderrBytes: result.stderrBytes,
  durationMs: result.durationMs,
  trimmed,
})

const WHY = {
  spawn_failed: 'The command could not be started',
  lost: 'The sandbox was lost while the command ran; its effect is unknown',
  cancelled: 'The command was cancelled',
} as const

function endOf(result: ExecResult): string {
  if (result.reason === 'workspace_full') return `${result.message} The output so far follows.`
  if (result.timedOut) {
    return `Timed out after ${Math.round(result.durationMs)} ms and was killed; the output so far follows.`
  }
  if (result.signal !== null) return `Ended by ${result.signal}.${result.message ? ` ${result.message}` : ''}`
  return `Exit code ${result.exitCode}.${result.message ? ` ${result.message}` : ''}`
}

function section(name: OutputStream, kept: HeadAndTail): string {
  const text = kept.toString()
  return text.trim() === '' ? `${name}: (empty)` : `${name}:\n${text.replace(/\n$/, '')}`
}
