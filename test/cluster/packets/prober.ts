import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { deferred } from '../../../devcluster/deferred.ts'
import type { Cell, Outcome } from './cell.ts'

/** Puts questions to a probe program that runs somewhere else, over its standard input and output. */
export interface Prober {
  /** Process id of the local command; the prober in a pod is another process. */
  readonly pid: number
  probe(cells: readonly Cell[], timeoutMs?: number): Promise<Outcome[]>
  stop(): Promise<void>
}

interface Answer {
  readonly id: number
  readonly outcomes: Outcome[]
}

/** All probers run on one machine, where a response needs one or two milliseconds. */
const PROBE_MS = 400
const START_MS = 30_000
/** For thousands of attempts, and for a machine with other work. */
const SLACK_MS = 60_000

/** Starts the program by `argv` and waits until it listens to questions. It ends with its standard input. */
export async function startProber(argv: readonly string[]): Promise<Prober> {
  const [command = '', ...args] = argv
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'pipe'] })
  const waiting = new Map<number, ReturnType<typeof deferred<Outcome[]>>>()
  const ended = followEnd(child, waiting)
  createInterface({ input: child.stdout }).on('line', (line) => {
    const { id, outcomes } = JSON.parse(line) as Answer
    waiting.get(id)?.resolve(outcomes)
    waiting.delete(id)
  })
  let lastId = 0

  async function expectAnswer(id: number, withinMs: number): Promise<Outcome[]> {
    const answer = deferred<Outcome[]>()
    waiting.set(id, answer)
    const late = () => answer.reject(new Error(`no answer from ${command} within ${withinMs} ms`))
    const timer = setTimeout(late, withinMs)
    try {
      return await answer.promise
    } finally {
      clearTimeout(timer)
    }
  }

  await expectAnswer(0, START_MS)
  return {
    pid: child.pid ?? 0,
    probe(cells, timeoutMs = PROBE_MS) {
      lastId += 1
      child.stdin.write(`${JSON.stringify({ id: lastId, timeoutMs, cells })}\n`)
      return expectAnswer(lastId, 2 * timeoutMs + SLACK_MS)
    },
    async stop() {
      child.stdin.end()
      child.kill('SIGTERM')
      await ended
    },
  }
}

type Waiting = Map<number, { reject(reason: Error): void }>

/** If the program ends, all pending questions are rejected with the end of its stderr. */
function followEnd(child: ChildProcess, waiting: Waiting): Promise<void> {
  const { promise, resolve } = deferred()
  let said = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-2_000)
  })
  child.stdin?.on('error', () => child.kill('SIGKILL'))
  const end = (why: string) => {
    for (const { reject } of waiting.values()) reject(new Error(`the probe ended (${why}): ${said}`))
    waiting.clear()
    resolve()
  }
  child.on('error', (error) => end(error.message)).on('close', (code) => end(`code ${code}`))
  return promise
}
