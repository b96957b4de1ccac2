import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import {
  type CredentialAnswer,
  EgressReport,
  type EgressState,
  type ReservationAnswer,
} from '../../../contracts/egress.ts'
import type { ReservationDecision, ReservationRequest } from '../../../contracts/egress-budgets.ts'
import { UPSTREAM_PROXY_KEY } from '../../../contracts/egress-proxy-env.ts'
import { deadline } from '../../kit/deadline.ts'
import { messageOf, SandboxError } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'

const SERVER = fileURLToPath(new URL('../../egress/server.ts', import.meta.url))

/** The proxy accepts the certificate authorities of this machine too, as programs outside a sandbox do. */
const FLAGS = ['--disable-warning=ExperimentalWarning', '--use-system-ca'] as const

/** Generous: a busy laptop can take seconds to start a process. */
const APPLY_TIMEOUT_MS = 30_000
const EXIT_TIMEOUT_MS = 5_000
/** The wait before a restart doubles, unless the process has run for `steady`. */
const RESTART_MS = { first: 200, longest: 30_000, steady: 60_000 } as const
/** Look-ups of names block a thread each, and some take seconds. */
const LOOKUP_THREADS = '32'
/** Argument of the process that inserts credentials. */
const CREDENTIAL_ROLE = 'credentials'

type EgressKeys = NonNullable<EgressState['listen']>['keys']
type Report = Exclude<EgressReport, { type: 'applied' | 'credential-wanted' | 'reservation-wanted' }>
export type CredentialWanted = Extract<EgressReport, { type: 'credential-wanted' }>
type ReservationWanted = Extract<EgressReport, { type: 'reservation-wanted' }>

export interface EgressProcessOptions {
  readonly log: Log
  /** Returns the value of a credential for the process that inserts credentials. No other process may ask for one. */
  readonly onWanted?: (wanted: CredentialWanted) => Promise<CredentialAnswer['answer']>
  /** Decides about a part of a run's budgets. */
  readonly reserve: (request: ReservationRequest) => Promise<ReservationDecision>
  /** Public keys of tokens. With them, the proxy serves callers with a token on a port of loopback. */
  readonly readKeys?: () => Promise<EgressKeys>
  /** PEM file with roots that the proxy accepts in addition to the public ones. */
  readonly rootsFile?: string | undefined
  /** `http://HOST:PORT` of the company's proxy. */
  readonly upstreamProxy?: string | undefined
  readonly onReport: (report: Report) => void
  /** Completes a state with what has changed since it was made. */
  readonly complete: (state: EgressState) => EgressState
  /** Called when the proxy has ended by itself. It is started again. */
  readonly onLost: () => void
}

function parseReport(line: string): EgressReport | undefined {
  try {
    return EgressReport.parse(JSON.parse(line))
  } catch {
    return undefined
  }
}

const write = ({ stdin }: ChildProcess, line: CredentialAnswer | ReservationAnswer) =>
  (stdin as Writable).write(`${JSON.stringify(line)}\n`)

interface Waiting {
  readonly revision: number
  resolve(): void
  reject(error: unknown): void
}

/** The process of the egress proxy: started on first need, and started again with the newest state if it ends. */
export class EgressProcess {
  readonly #options: EgressProcessOptions
  #state: EgressState | undefined
  #child: ChildProcess | undefined
  #waiting: Waiting[] = []
  #restart: NodeJS.Timeout | undefined
  #restartMs: number = RESTART_MS.first
  #startedAt = 0
  #keys: EgressKeys | undefined
  #port: number | undefined
  #isClosed = false

  constructor(options: EgressProcessOptions) {
    this.#options = options
  }

  /** Resolves when the proxy allows exactly this state, or a newer one. */
  async apply(state: EgressState): Promise<void> {
    // Before any wait: of two calls, the later one has the newer state.
    this.#state = state
    try {
      this.#keys = await this.#options.readKeys?.()
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      this.#waiting.push({ revision: state.revision, resolve, reject })
      if (this.#child) this.#send(this.#child)
      else this.#start()
      await deadline('the egress proxy', APPLY_TIMEOUT_MS, promise)
    } catch (error) {
      // Otherwise it would keep enforcing an older state.
      this.#child?.kill('SIGKILL')
      throw error
    }
  }

  /** The port for callers with a token, once a state is applied. It stays the same when the process is started again. */
  get port(): number | undefined {
    return this.#port
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#restart)
    const child = this.#child
    if (!child) return
    const exited = once(child, 'exit')
    child.stdin?.end()
    await deadline('the exit of the egress proxy', EXIT_TIMEOUT_MS, exited).catch(() => child.kill('SIGKILL'))
  }

  #start(): void {
    clearTimeout(this.#restart)
    if (this.#isClosed) return
    const { log, rootsFile, upstreamProxy, onWanted } = this.#options
    const role = onWanted ? [CREDENTIAL_ROLE] : []
    const child = spawn(process.execPath, [...FLAGS, SERVER, ...role], {
      stdio: ['pipe', 'pipe', 'pipe'],
      // In its own session, so that Ctrl+C in the terminal does not end it before the sandboxes.
      detached: true,
      // The service's environment is not inherited: it may hold the operator's secrets.
      env: {
        PATH: '/usr/bin:/bin',
        UV_THREADPOOL_SIZE: LOOKUP_THREADS,
        ...(rootsFile !== undefined && { NODE_EXTRA_CA_CERTS: rootsFile }),
        ...(upstreamProxy !== undefined && { [UPSTREAM_PROXY_KEY]: upstreamProxy }),
      },
    })
    this.#child = child
    this.#startedAt = performance.now()
    child.on('error', (error) => this.#onGone(child, messageOf(error)))
    child.on('exit', (code, signal) => this.#onGone(child, `it ended with ${signal ?? `exit code ${code}`}`))
    child.stdin.on('error', (error) => log.debug('the egress proxy reads nothing more', { error }))
    createInterface({ input: child.stderr as Readable }).on('line', (line) =>
      log.warn('egress proxy', { line }),
    )
    createInterface({ input: child.stdout as Readable }).on('line', (line) => this.#onLine(child, line))
    this.#send(child)
  }

  #send({ stdin }: ChildProcess): void {
    if (!this.#state) return
    const listen = this.#keys && { port: this.#port ?? 0, keys: this.#keys }
    const state = { ...this.#options.complete(this.#state), ...(listen && { listen }) }
    ;(stdin as Writable).write(`${JSON.stringify(state)}\n`)
  }

  /** The proxy handles hostile input, so its output is validated. A proxy that sends anything else is replaced. */
  #onLine(child: ChildProcess, line: string): void {
    const report = parseReport(line)
    if (!report) {
      this.#logMalformed(line)
      child.kill('SIGKILL')
      return
    }
    if (report.type === 'credential-wanted') {
      this.#answer(child, report)
      return
    }
    if (report.type === 'reservation-wanted') {
      void this.#reserve(child, report)
      return
    }
    if (report.type !== 'applied') {
      this.#options.onReport(report)
      return
    }
    this.#port ??= report.port
    if (performance.now() - this.#startedAt > RESTART_MS.steady) this.#restartMs = RESTART_MS.first
    this.#settle(
      ({ revision }) => revision <= report.revision,
      (waiting) => waiting.resolve(),
    )
  }

  #logMalformed(line: string): void {
    const { log, onWanted } = this.#options
    // A line of the process that has credentials could contain one.
    const shown = onWanted ? {} : { line: line.slice(0, 200) }
    log.error('the egress proxy sent a malformed report', shown)
  }

  #answer(child: ChildProcess, wanted: CredentialWanted): void {
    const { log, onWanted } = this.#options
    if (!onWanted) {
      log.error('the egress proxy asked for a credential, which is not its task')
      child.kill('SIGKILL')
      return
    }
    onWanted(wanted).then(
      (answer) => write(child, { type: 'credential', id: wanted.id, answer }),
      (error: unknown) => log.error('a credential could not be sent', { error: messageOf(error) }),
    )
  }

  async #reserve(child: ChildProcess, { id, request }: ReservationWanted): Promise<void> {
    const { reserve, log } = this.#options
    const decision = await reserve(request).catch((error: unknown) => {
      log.error('a budget could not be read', { runId: request.runId, error: messageOf(error) })
      return undefined
    })
    write(child, { type: 'reservation', id, ...(decision && { decision }) })
  }

  #settle(isMeant: (waiting: Waiting) => boolean, settle: (waiting: Waiting) => void): void {
    const meant = this.#waiting.filter(isMeant)
    this.#waiting = this.#waiting.filter((waiting) => !isMeant(waiting))
    meant.forEach(settle)
  }

  #onGone(child: ChildProcess, how: string): void {
    if (this.#child !== child) return
    this.#child = undefined
    const error = new SandboxError('unavailable', `the egress proxy is not running: ${how}`)
    this.#settle(
      () => true,
      (waiting) => waiting.reject(error),
    )
    if (this.#isClosed) return
    this.#options.log.error('the egress proxy ended and is started again', { how, afterMs: this.#restartMs })
    this.#options.onLost()
    this.#restart = setTimeout(() => this.#start(), this.#restartMs)
    this.#restart.unref()
    this.#restartMs = Math.min(this.#restartMs * 2, RESTART_MS.longest)
  }
}
