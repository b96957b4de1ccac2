import { messageOf } from '../../runtime/kit/errors.ts'
import { CliError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { StackLocked } from './failure.ts'
import type { ListedStack, Pulumi } from './pulumi.ts'

export interface Judged {
  readonly stack: string
  readonly did: 'kept' | 'destroyed' | 'would destroy' | 'failed'
  readonly why: string
}

interface Sweep {
  readonly pulumi: Pick<Pulumi, 'list' | 'state' | 'destroy'>
  readonly now: Date
  /** A preview without an `expires` tag, as a first `up` that failed leaves it, lives this long after its last update. */
  readonly maxHours: number
  readonly isDryRun: boolean
  /** Prepares the stack's file for its destruction. */
  prepare(stack: string): Promise<void>
}

const HOUR_MS = 3_600_000
/** Longer than any run of this workflow takes: an older lock was left by a run that was killed. */
const LONGEST_RUN_MS = 2 * HOUR_MS

const isFresh = ({ since }: StackLocked, now: Date): boolean =>
  since !== undefined && now.getTime() - since.getTime() < LONGEST_RUN_MS

/** Destroys expired previews one after another. A failure does not stop the others. */
export async function sweep(options: Sweep): Promise<Judged[]> {
  const judged: Judged[] = []
  for (const listed of await options.pulumi.list()) judged.push(await judge(listed, options))
  return judged
}

async function judge(listed: ListedStack, options: Sweep): Promise<Judged> {
  const { stack } = listed
  try {
    const { isDue, why } = await due(listed, options)
    if (!isDue) return { stack, did: 'kept', why }
    if (options.isDryRun) return { stack, did: 'would destroy', why }
    await options.prepare(stack)
    await options.pulumi.destroy(stack)
    return { stack, did: 'destroyed', why }
  } catch (error) {
    // A missing program affects every stack.
    if (error instanceof CliError && error.status === EXIT.unreachable) throw error
    return undone(stack, error, options.now)
  }
}

function undone(stack: string, error: unknown, now: Date): Judged {
  if (error instanceof StackLocked && isFresh(error, now))
    return { stack, did: 'kept', why: `is being changed since ${error.since?.toISOString()}` }
  const hint = error instanceof CliError && error.hint !== undefined ? ` ${error.hint}` : ''
  return { stack, did: 'failed', why: `${messageOf(error)}${hint}` }
}

async function due({ stack, updatedAt }: ListedStack, { pulumi, now, maxHours }: Sweep) {
  const { expires } = await pulumi.state(stack)
  if (expires) {
    const isDue = expires.getTime() <= now.getTime()
    return { isDue, why: `${isDue ? 'expired' : 'lives until'} ${expires.toISOString()}` }
  }
  if (!updatedAt) return { isDue: false, why: 'has no end and was never updated: look at it' }
  const isDue = updatedAt.getTime() + maxHours * HOUR_MS <= now.getTime()
  return { isDue, why: `has no end; last updated ${updatedAt.toISOString()}` }
}
