import { type EgressGeneration, MODEL_BASE_PATH } from '../../../contracts/egress.ts'
import {
  EgressCheckAnswer,
  type EgressCheckRequest,
  type EgressCheckVerdict,
} from '../../../contracts/egress-control.ts'
import { EGRESS_CONTROL_ROUTES } from '../../../contracts/routes.ts'
import { type CheckTarget, createCheckNetwork } from '../../credential-check/check-network.ts'
import { type CheckAccess, type CheckWay, runCheck, unchecked } from '../../credential-check/run-check.ts'
import { unlessAborted } from '../../kit/deadline.ts'
import { messageOf } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import { type ControlPlace, parseAnswer, postControl } from './control-request.ts'
import { valueFrom } from './fetch-credential.ts'
import type { ReadUserSecret } from './user-vault.ts'

export interface CredentialChecksOptions {
  readonly place: ControlPlace
  readonly readSecret: ReadUserSecret | undefined
  /** Roots that the certificate of a server may have. @default the roots of Node */
  readonly roots: readonly string[] | undefined
  /** Makes the proxy serve the networks of the current checks. */
  readonly apply: () => Promise<void>
  /** Time for one check. */
  readonly checkMs: number
  readonly log: Log
}

/** Checks that this replica carries out at the same time. Further checks wait for another replica, or until one of these ends. */
const AT_ONCE = 8
const POST_MS = 5_000

/**
 * Carries out checks of credentials that people set, as the process that inserts credentials: reads the value, and asks the
 * server of the credential through its own proxy, whose rules for addresses apply. No error quotes an answer of the API, because
 * it may contain the value.
 */
export class CredentialChecks implements CheckWay {
  readonly #options: CredentialChecksOptions
  readonly #networks = new Map<string, { readonly generation: EgressGeneration; readonly value: string }>()
  readonly #begun = new Set<string>()

  constructor(options: CredentialChecksOptions) {
    this.#options = options
  }

  /** The networks of the current checks. The state of the API does not list them. */
  get generations(): EgressGeneration[] {
    return [...this.#networks.values()].map(({ generation }) => generation)
  }

  /** The value that is checked in a network. Undefined for every other sandbox. */
  valueOf(runId: string): string | undefined {
    return this.#networks.get(runId)?.value
  }

  /** Begins the checks of a message, each once. Returns at once. */
  take(ids: readonly string[]): void {
    for (const id of ids) {
      if (this.#begun.has(id) || this.#begun.size >= AT_ONCE) continue
      this.#begun.add(id)
      this.#carryOut(id)
        .catch((error: unknown) =>
          this.#options.log.warn('a credential could not be checked', { error: messageOf(error) }),
        )
        .finally(() => this.#begun.delete(id))
    }
  }

  async lend<T>(target: CheckTarget, value: string, use: (access: CheckAccess) => Promise<T>): Promise<T> {
    const { roots, apply } = this.#options
    const { generation, remove } = await createCheckNetwork(target)
    const { runId, socketPath, modelRoute } = generation
    const modelSocket = modelRoute?.brokerPath
    const served = { ...generation, ...(modelSocket !== undefined && { agentHostSocketPath: modelSocket }) }
    this.#networks.set(runId, { generation: served, value })
    try {
      await apply()
      const models = {
        ...(modelSocket !== undefined && { socketPath: modelSocket }),
        path: `${MODEL_BASE_PATH}/models`,
      }
      return await use({ socketPath, models, ca: roots })
    } finally {
      this.#networks.delete(runId)
      await apply()
      await remove()
    }
  }

  async #carryOut(id: string): Promise<void> {
    const signal = AbortSignal.timeout(this.#options.checkMs)
    const found = await this.#begin(id, signal)
    if (!found) return
    const { readSecret } = this.#options
    const verdict = await valueFrom(found.credential, readSecret).then(
      (value) =>
        unlessAborted(runCheck(this, found.plan, { value, signal }), signal).catch((error: unknown) =>
          unchecked(`its server could not be asked: ${messageOf(error)}`),
        ),
      (error: unknown) => unchecked(`the egress proxy could not read it: ${messageOf(error)}`),
    )
    await this.#post(EGRESS_CONTROL_ROUTES.verdicts, { id, verdict } satisfies EgressCheckVerdict, {
      expected: 204,
      signal: AbortSignal.timeout(POST_MS),
    })
  }

  /** Undefined if another replica carries it out, or if it is over. */
  async #begin(id: string, signal: AbortSignal): Promise<EgressCheckAnswer | undefined> {
    const text = await this.#post(EGRESS_CONTROL_ROUTES.checks, { id } satisfies EgressCheckRequest, {
      expected: 200,
      signal,
    })
    return text === undefined ? undefined : parseAnswer(EgressCheckAnswer, text)
  }

  /** Returns the body of the answer, and undefined for a 404. */
  async #post(
    path: string,
    sent: object,
    { expected, signal }: { readonly expected: number; readonly signal: AbortSignal },
  ): Promise<string | undefined> {
    const answer = await postControl(this.#options.place, { path, sent, signal, expected: [expected, 404] })
    return answer.status === 404 ? undefined : answer.text
  }
}
