import type { Detector } from './detector.ts'
import { guardStage } from './guard-stage.ts'
import { redactJson } from './json.ts'
import { assignments, elements } from './kinds/assignments.ts'
import { curlUser } from './kinds/curl-user.ts'
import { innerTokens } from './kinds/inner-tokens.ts'
import { namedArguments } from './kinds/named-value.ts'
import { email, ipv4, ipv6 } from './kinds/personal.ts'
import { prefixedTokens } from './kinds/prefixed-tokens.ts'
import { privateKey } from './kinds/private-key.ts'
import { secretFlags } from './kinds/secret-flags.ts'
import { urlPassword } from './kinds/url-password.ts'
import { basic, bearer, entraSecret, jwt } from './kinds/web-tokens.ts'
import { createKindsStage } from './kinds-stage.ts'
import { createKnownStage } from './known/known-stage.ts'
import { chain, type Stage } from './stage.ts'

/** A stream's redaction: what may be said so far, and at the end the rest. */
export type RedactorStream = Stage

export interface Redactor {
  /** Redacts one whole text. */
  text(this: void, text: string): string
  /** Redacts every string of a JSON value; `changed` says whether anything was hidden. */
  json<T>(this: void, value: T): { readonly value: T; readonly changed: boolean }
  /** Redacts a stream of text chunks; how it is cut has no influence on the result. */
  stream(this: void): RedactorStream
}

export interface RedactorOptions {
  /** Values that must not be said in any form; those shorter than six characters are not looked for. */
  readonly secrets: readonly string[]
  /** Whether e-mail and IP addresses are redacted too. */
  readonly pii: boolean
  /** @default the kinds of this folder */
  readonly detectors?: readonly Detector[]
}

const SECRET_KINDS: readonly Detector[] = [
  privateKey,
  prefixedTokens,
  innerTokens,
  jwt,
  bearer,
  basic,
  entraSecret,
  urlPassword,
  secretFlags,
  curlUser,
  assignments,
  elements,
  namedArguments,
]
const ALL_KINDS: readonly Detector[] = [...SECRET_KINDS, email, ipv4, ipv6]

/** Made where it is first wanted, and once: it depends on the kinds alone, not on what a redactor has learned. */
function sharedStage(detectors: readonly Detector[]): () => () => Stage {
  let made: (() => Stage) | undefined
  return () => {
    made ??= createKindsStage(detectors)
    return made
  }
}
const secretKinds = sharedStage(SECRET_KINDS)
const allKinds = sharedStage(ALL_KINDS)

/** Known values first, in all their forms, then kinds of secrets by their form. */
export function createRedactor({ secrets, pii, detectors }: RedactorOptions): Redactor {
  const openKnown = createKnownStage(secrets)
  const openKinds = detectors ? createKindsStage(detectors) : pii ? allKinds() : secretKinds()
  const stream = () => guardStage(openKnown ? chain(openKnown(), openKinds()) : openKinds())
  const text = (whole: string) => {
    const once = stream()
    return once.push(whole) + once.end()
  }
  return {
    text,
    json: <T>(value: T) => {
      const redacted = redactJson(value, text)
      return { value: redacted.value as T, changed: redacted.changed }
    },
    stream,
  }
}
