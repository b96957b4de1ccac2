import { createInterface } from 'node:readline/promises'
import { Writable } from 'node:stream'

import type { Terminal } from './terminal.ts'

type Question = {
  readonly text: string
  readonly signal: AbortSignal
  /** Called for Ctrl-C at the prompt, where the terminal sends no signal. */
  readonly onInterrupt: () => void
}

/**
 * Asks for one line at the terminal. Earlier input is discarded, because it cannot be an answer to this question. Returns
 * undefined if the input ended or the question was withdrawn.
 */
export async function ask(terminal: Terminal, question: Question): Promise<string | undefined> {
  if (!(await discardTypedAhead(terminal)) || question.signal.aborted) return undefined
  terminal.progress.clear()
  const lines = createInterface({ input: terminal.io.stdin, output: terminal.io.stderr, terminal: true })
  const { promise: closed, resolve } = Promise.withResolvers<undefined>()
  lines.once('close', () => resolve(undefined))
  lines.on('SIGINT', question.onInterrupt)
  try {
    return await Promise.race([lines.question(question.text, { signal: question.signal }), closed])
  } catch (error) {
    if (question.signal.aborted) return undefined
    throw error
  } finally {
    lines.close()
    terminal.io.stdin.pause()
  }
}

/** Discards all unread input. Returns false if the terminal cannot be flushed, for example at its end. */
async function discardTypedAhead({ io: { stdin } }: Terminal): Promise<boolean> {
  // Imported here because it loads the C library, which no other command needs.
  const { discardTyped } = await import('../../runtime/system-calls/terminal-input.ts')
  while (stdin.readableLength > 0) stdin.read()
  return discardTyped(stdin.fd)
}

/** Asks for a secret without echo. Returns undefined if the input ended or after Ctrl-C. */
export async function askSecret(terminal: Terminal, text: string): Promise<string | undefined> {
  if (!(await discardTypedAhead(terminal))) return undefined
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() })
  const lines = createInterface({ input: terminal.io.stdin, output: silent, terminal: true })
  const { promise: closed, resolve } = Promise.withResolvers<undefined>()
  lines.once('close', () => resolve(undefined)).once('SIGINT', () => lines.close())
  terminal.progress.clear()
  terminal.io.stderr.write(text)
  try {
    return await Promise.race([lines.question(''), closed])
  } finally {
    lines.close()
    terminal.io.stdin.pause()
    terminal.io.stderr.write('\n')
  }
}
