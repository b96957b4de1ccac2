import type { ErrorCode } from '../../../../contracts/errors.ts'
import { delay, withTimeout } from '../../../kit/deadline.ts'
import { messageOf, SandboxError } from '../../../kit/errors.ts'
import type { LaunchedSandbox } from './launch.ts'

/** What is asked whether a sandbox lives. */
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
  /** An AgentHost that leaves is gone within 1.5 s, and a node tells of a container that died in two or three. */
  settleMs: 4_000,
  askMs: 1_500,
  lookAgainMs: 250,
} as const
type Timing = { readonly [Name in keyof typeof DEATH_TIMING]: number }

/**
 * What a failure in the use of a sandbox comes to: the failure itself, or `sandbox_lost`. Whatever a sandbox says
 * while it dies, and however its connections break, says nothing of why; so a failure stands only once its sandbox
 * has shown after it that it lives. Where it neither does that in time nor is known to be lost, it is lost.
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
    // The run ended meanwhile, by somebody's word.
    if (signal.aborted) return error
    throw failure
  } finally {
    decided.abort()
  }
}

/** Work that needs a living sandbox: it ends as soon as that is lost, and what it fails with is judged. */
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

/** Asks the sandbox, and who keeps it, until one of them answers clearly. */
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
    // Somebody does answer, still, who is not the sandbox: that is worth to be told.
    if (answer === 'stranger' && isStranger(error)) return error
    return lossBy(`the sandbox does not answer any more: ${messageOf(error)}`, error)
  }
}

const isStranger = (error: unknown): boolean =>
  error instanceof SandboxError && error.code === 'identity_mismatch'

/** Whether the sandbox answers and is not about to go, or another in its place. */
const answerOf = ({ client }: Suspect, signal: AbortSignal): Promise<'lives' | 'stranger' | undefined> =>
  client.health(signal).then(
    ({ state }) => (state === 'leaving' ? undefined : 'lives'),
    (error) => (isStranger(error) ? 'stranger' : undefined),
  )
