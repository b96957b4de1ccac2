import { setTimeout as sleep } from 'node:timers/promises'
import { HarnessError, messageOf } from '../harness-error.ts'
import { type Daemon, explainEnd } from './daemon.ts'
import { tailOf } from './log-tail.ts'

export interface Wait {
  /** The condition, as the end of the sentence "gave up waiting for …". */
  readonly what: string
  readonly timeoutMs: number
  /** Programs that the condition depends on. The wait fails when one of them ends. */
  readonly needs?: readonly Daemon[]
  readonly everyMs?: number
}

/** Polls until `probe` returns a value other than `undefined` or `false`. An error of `probe` counts as not ready. */
export async function waitUntil<T>(
  wait: Wait,
  probe: () => Promise<T | undefined> | T | undefined,
): Promise<T> {
  const { what, timeoutMs, needs = [], everyMs = 25 } = wait
  const deadline = Date.now() + timeoutMs
  let last = ''
  for (;;) {
    try {
      const answer = await probe()
      if (answer !== undefined && answer !== false) return answer
    } catch (error) {
      last = messageOf(error)
    }
    const dead = needs.find((daemon) => daemon.exitReason() !== undefined)
    if (dead) throw new HarnessError(`while waiting for ${what}: ${explainEnd(dead)}`)
    if (Date.now() > deadline) throw new HarnessError(giveUp(wait, last))
    await sleep(everyMs)
  }
}

function giveUp({ what, timeoutMs, needs = [] }: Wait, last: string): string {
  const logs = needs.map(({ name, logPath }) => `the end of ${name}'s log ${logPath}:\n${tailOf(logPath)}`)
  const cause = last ? ` (${last})` : ''
  return [`gave up waiting for ${what} after ${timeoutMs / 1000} s${cause}`, ...logs].join('\n')
}
