import { ask } from '../terminal/prompt.ts'
import type { Terminal } from '../terminal/terminal.ts'

/** One thing that a person is asked. */
export interface Question {
  /** By which it can be withdrawn. */
  readonly key: string
  /** What is said before the question, each time it is put. */
  readonly lines: readonly string[]
  readonly prompt: string
  /** Takes the answer; `again` puts the question once more. `undefined`: the input has ended. */
  readonly settle: (answer: string | undefined) => Promise<'settled' | 'again'>
}

type Desk = {
  /** Puts a question, after those that wait already. */
  put(question: Question): void
  /** Takes a question back: somebody else has answered it. */
  withdraw(key: string): void
  /** Ctrl-C: puts a question before all others; Ctrl-C at that one calls `onInterrupt`. */
  interrupt(question: Question): void
  /** No more questions; the one that is open is closed. */
  close(): void
}

/** Puts one question after another to the person at the terminal. */
export function createDesk(
  terminal: Terminal,
  events: { onInterrupt: () => void; onFault: (error: unknown) => void },
): Desk {
  const waiting: Question[] = []
  let open: AbortController | undefined
  let isClosed = false
  let isWorking = false

  const drop = (key: string) => {
    const at = waiting.findIndex((question) => question.key === key)
    if (at >= 0) waiting.splice(at, 1)
    return at === 0
  }
  const put = async (question: Question) => {
    open = new AbortController()
    const { signal } = open
    terminal.note(question.lines)
    const answer = await ask(terminal, { text: question.prompt, signal, onInterrupt: events.onInterrupt })
    if (signal.aborted) return
    if ((await question.settle(answer)) === 'settled') drop(question.key)
  }
  const work = async () => {
    try {
      while (waiting[0] && !isClosed) await put(waiting[0])
    } finally {
      isWorking = false
    }
  }
  const start = () => {
    if (isWorking) return
    isWorking = true
    work().catch(events.onFault)
  }
  return {
    put(question) {
      waiting.push(question)
      start()
    },
    withdraw(key) {
      if (drop(key)) open?.abort()
    },
    interrupt(question) {
      waiting.unshift(question)
      open?.abort()
      start()
    },
    close() {
      isClosed = true
      open?.abort()
    },
  }
}
