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

/** A redacted stream: `push` returns the text that is decided, `end` the rest. */
export type RedactorStream = Stage

export interface Redactor {
  text(this: void, text: string): string
  /** Redacts every string of a JSON value. `changed` is true if anything was redacted. */
  json<T>(this: void, value: T): { readonly value: T; readonly changed: boolean }
  /** Redacts a stream of text chunks. The result does not depend on the chunk boundaries. */
  stream(this: void): RedactorStream
}

export interface RedactorOptions {
  /** Values to redact in every form. Values shorter than six characters are ignored. */
  readonly secrets: readonly string[]
  /** Whether to redact e-mail and IP addresses too. */
  readonly pii: boolean
  /** @default all kinds in this folder */
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

/** Created on first use and shared: it depends only on the detectors, not on learned values. */
function sharedStage(detectors: readonly Detector[]): () => () => Stage {
  let made: (() => Stage) | undefined
  return () => {
    made ??= createKindsStage(detectors)
    return made
  }
}
const secretKinds = sharedStage(SECRET_KINDS)
const allKinds = sharedStage(ALL_KINDS)

/** Redacts known values first, in all their forms, then secrets that are recognised by their format. */
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
