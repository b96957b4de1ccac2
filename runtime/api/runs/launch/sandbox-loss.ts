import type { ErrorCode } from '../../../../contracts/errors.ts'
import { delay, withTimeout } from '../../../kit/deadline.ts'
import { messageOf, SandboxError } from '../../../kit/errors.ts'
import type { LaunchedSandbox } from './launched-sandbox.ts'

/** The parts of a sandbox that show whether it is alive. */
export type Suspect = {
  readonly sandbox: Pick<LaunchedSandbox['sandbox'], 'lost' | 'howLost'>
  readonly client: Pick<LaunchedSandbox['client'], 'health'>
}

/** Reasons that no death of a sandbox can bring about, or that are one. */
const CERTAIN: ReadonlySet<ErrorCode> = new Set([
  'sandbox_lost',
  'agent_stall_timeout',
  'agent_quota_exceeded',
  'conflict',
  'run_ended',
  'credential_absent',
  'credential_forbidden',
  'credential_unavailable',
])

export const DEATH_TIMING = {
  /**
   * An AgentHost that shuts down is gone within 1.5 s, and a node reports a dead container within two or three seconds.
   */
  settleMs: 4_000,
  askMs: 1_500,
  lookAgainMs: 250,
} as const
type Timing = { readonly [Name in keyof typeof DEATH_TIMING]: number }

/**
 * The cause of a failure: the failure itself, or `sandbox_lost`. Errors of a dying sandbox do not explain anything, so
 * a failure counts only if the sandbox has responded after it. A sandbox that does not respond in time is lost.
 */
export async function causeOf(
  error: unknown,
  suspect: Suspect,
  { signal, timing = DEATH_TIMING }: { readonly signal: AbortSignal; readonly timing?: Timing },
): Promise<unknown> {
  if (signal.aborted || (error instanceof SandboxError && CERTAIN.has(error.code))) return error
  const decided = new AbortController()
  const known = lossOf(suspect, error)
  try {
    const undecided = AbortSignal.any([signal, decided.signal])
    return await Promise.race([known, proofOf(error, suspect, { signal: undecided, timing })])
  } catch (failure) {
    // Someone ended the run in the meantime.
    if (signal.aborted) return error
    throw failure
  } finally {
    decided.abort()
  }
}

/**
 * Work that needs a living sandbox. It is aborted when the sandbox is lost, and the cause of its failure is determined.
 */
export async function whileAlive<T>(
  suspect: Suspect,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const gone = new AbortController()
  void lossOf(suspect).then((loss) => gone.abort(loss))
  try {
    return await work(AbortSignal.any([signal, gone.signal]))
  } catch (error) {
    throw await causeOf(error, suspect, { signal })
  }
}

/** Settles when the sandbox is gone, with what that is to the run. */
export const lossOf = ({ sandbox }: Suspect, cause?: unknown): Promise<SandboxError> =>
  sandbox.lost.then(
    (how) => lossBy(how, cause),
    (failure) => lossBy(messageOf(failure), cause),
  )

const lossBy = (how: string, cause: unknown) => new SandboxError('sandbox_lost', how, { cause })

type Asking = { readonly signal: AbortSignal; readonly timing: Timing }

/** Asks the sandbox and its provider until one of them gives a clear answer. */
async function proofOf(error: unknown, suspect: Suspect, { signal, timing }: Asking): Promise<unknown> {
  for (const giveUpAt = performance.now() + timing.settleMs; ; await delay(timing.lookAgainMs, signal)) {
    const soon = withTimeout(timing.askMs, signal)
    const [how, answer] = await Promise.all([
      suspect.sandbox.howLost?.(soon).catch(() => undefined),
      answerOf(suspect, soon),
    ])
    if (how !== undefined) return lossBy(how, error)
    if (answer === 'lives') return error
    if (performance.now() < giveUpAt) continue
    // A server that is not the sandbox still responds, which is worth reporting.
    if (answer === 'stranger' && isStranger(error)) return error
    return lossBy(`the sandbox does not answer any more: ${messageOf(error)}`, error)
  }
}

const isStranger = (error: unknown): boolean =>
  error instanceof SandboxError && error.code === 'identity_mismatch'

/** Whether the sandbox responds and is not shutting down, or another server responds. */
const answerOf = ({ client }: Suspect, signal: AbortSignal): Promise<'lives' | 'stranger' | undefined> =>
  client.health(signal).then(
    ({ state }) => (state === 'leaving' ? undefined : 'lives'),
    (error) => (isStranger(error) ? 'stranger' : undefined),
  )
