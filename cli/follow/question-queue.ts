import { ask } from '../terminal/prompt.ts'
import type { Terminal } from '../terminal/terminal.ts'

/** A prompt for the person at the terminal. */
export interface Question {
  /** Identifies the question, so that it can be withdrawn. */
  readonly key: string
  /** Text printed before the prompt, each time it is asked. */
  readonly lines: readonly string[]
  readonly prompt: string
  /** Handles the answer; `again` repeats the prompt. `undefined` means that the input has ended. */
  readonly settle: (answer: string | undefined) => Promise<'settled' | 'again'>
}

type QuestionQueue = {
  /** Adds a question to the end of the queue. */
  put(question: Question): void
  /** Removes a question that was answered elsewhere. */
  withdraw(key: string): void
  /** Ctrl-C: asks this question first. A second Ctrl-C calls `onInterrupt`. */
  interrupt(question: Question): void
  /** Drops all questions and closes the open prompt. */
  close(): void
}

/** Asks the person at the terminal one question after another. */
export function createQuestionQueue(
  terminal: Terminal,
  events: { onInterrupt: () => void; onFault: (error: unknown) => void },
): QuestionQueue {
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
