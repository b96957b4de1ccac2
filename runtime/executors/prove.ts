import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ExecRequest, type Isolation } from '../../contracts/exec.ts'
import { messageOf } from '../kit/errors.ts'
import { silentLog } from '../kit/log.ts'
import { commandShell } from './command-shell.ts'
import type { Backend, BackendWarning, Detection, Executor } from './executor.ts'
import { lookUpTool, userNamespaceRemedy } from './host.ts'

interface Proof {
  readonly backend: Backend
  readonly isolation: Isolation
  /** Guarantees that the backend cannot give on this machine. */
  readonly warnings: (executor: Executor) => readonly BackendWarning[]
  /** Required programs. */
  readonly tools: readonly string[]
  /** The command that installs them. */
  readonly packageHint: string
  readonly options: Parameters<Backend['detect']>[0]
}

/** Governance parses commands for the shell that the backend announces, so the proof checks which shell runs. */
const SHELL_PROOF = { bash: `check test -n "$BASH_VERSION"; check shopt -qo privileged`, sh: '' } as const

/** Checks that must pass inside the sandbox. A failing check prints itself. */
const PROOF = `
check() { "$@" || { echo "check failed in the sandbox: $*" >&2; exit 1; }; }
check test "$PWD" = /workspace
${SHELL_PROOF[commandShell().name]}
echo proof > proof
check test -s proof
check test ! -e /run
check test ! -e /etc/shadow
check test ! -w /usr
check grep -q '^CapEff:.0*$' /proc/self/status
check grep -q '^NoNewPrivs:.1$' /proc/self/status
check test "$(grep -c : /proc/net/dev)" = 1
`

/** Runs a real command in the backend and accepts the backend only if that command's checks pass. */
export async function detectByProof(proof: Proof): Promise<Detection> {
  const missing = proof.tools.filter((tool) => lookUpTool(tool) === undefined)
  if (process.platform !== 'linux') return { ok: false, reason: 'it needs Linux' }
  if (missing.length > 0)
    return { ok: false, reason: `not installed: ${missing.join(', ')}`, remedy: proof.packageHint }
  const outcome = await prove(proof)
  if (typeof outcome !== 'string') return { ok: true, isolation: proof.isolation, warnings: outcome }
  const remedy = userNamespaceRemedy()
  return { ok: false, reason: outcome, ...(remedy === undefined ? {} : { remedy }) }
}

/** Returns the warnings if the proof succeeds, otherwise the reason for the failure. */
async function prove({ backend, warnings, options }: Proof): Promise<readonly BackendWarning[] | string> {
  const workspace = await realpath(await mkdtemp(join(tmpdir(), 'agentweaver-probe-')))
  try {
    const executor = await backend.create({ workspace, toolRoots: options.toolRoots, log: silentLog })
    try {
      let said = ''
      const onChunk = (_stream: string, bytes: Uint8Array) => {
        said += Buffer.from(bytes).toString()
      }
      const io = options.signal ? { onChunk, signal: options.signal } : { onChunk }
      const result = await executor.run(ExecRequest.parse({ command: PROOF, timeoutMs: 10_000 }), io)
      if (result.exitCode === 0) return warnings(executor)
      return `the probe failed: ${said.trim() || result.message || `exit code ${result.exitCode}`}`
    } finally {
      await executor.close()
    }
  } catch (error) {
    return messageOf(error)
  } finally {
    await rm(workspace, { recursive: true, force: true })
  }
}
