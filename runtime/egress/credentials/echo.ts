import type { IncomingMessage } from 'node:http'
import { Transform, type TransformCallback } from 'node:stream'
import { createKnownStage } from '../../redaction/known/known-stage.ts'
import type { Stage } from '../../redaction/stage.ts'

/** The answer of a server contains the credential that was inserted into its request. */
export class CredentialEchoed extends Error {}

/** Searches the responses of a server for the credential, raw and in the encodings that the redactor knows. */
export class EchoSearch {
  readonly #open: () => Stage

  constructor(value: string) {
    const open = createKnownStage([value])
    if (!open) throw new Error('the credential is too short to be found in an answer')
    this.#open = open
  }

  isIn(text: string): boolean {
    const stage = this.#open()
    return stage.push(text) + stage.end() !== text
  }

  isInHeaders({ rawHeaders }: Pick<IncomingMessage, 'rawHeaders'>): boolean {
    return rawHeaders.some((text) => this.isIn(text))
  }

  /** Passes a body on. Fails with `CredentialEchoed` before the first byte of the credential has passed. */
  body(): Transform {
    const stage = this.#open()
    let held = ''
    const pass = (text: string, done: TransformCallback) => {
      // The stage replaces what it finds, so its output differs from its input.
      if (!held.startsWith(text)) {
        done(new CredentialEchoed('the answer contains the credential'))
        return
      }
      held = held.slice(text.length)
      done(null, Buffer.from(text, 'latin1'))
    }
    return new Transform({
      transform(chunk: Buffer, _encoding, done) {
        const text = chunk.toString('latin1')
        held += text
        pass(stage.push(text), done)
      },
      flush: (done) => pass(stage.end(), done),
    })
  }
}
