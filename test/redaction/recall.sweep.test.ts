import { describe, expect, it } from 'vitest'
import { createRedactor } from '../../runtime/redaction/redactor.ts'
import { ALONE, createSampler, NAMED, type SecretFormat } from './secret-formats.ts'

const SAMPLES = 25
const redactor = createRedactor({ secrets: [], pii: false })

/** Whether twelve consecutive characters of a secret, or all of a shorter one, are left. */
function isLeft(secret: string, shown: string): boolean {
  const width = Math.min(secret.length, 12)
  return Array.from({ length: secret.length - width + 1 }, (_, at) => secret.slice(at, at + width)).some(
    (part) => shown.includes(part),
  )
}

/** The share of a format's samples that is redacted in these contexts. */
function recall({ format }: SecretFormat, contexts: readonly ((secret: string) => string)[]): number {
  const sample = createSampler(4711)
  const secrets = Array.from({ length: SAMPLES }, () => sample(format))
  const hidden = secrets.flatMap((secret) =>
    contexts.filter(
      (context) => !isLeft(secret, redactor.text(context(secret)).replaceAll(/\[REDACTED:[^\]]*\]/g, ' ')),
    ),
  )
  return hidden.length / (SAMPLES * contexts.length)
}

const average = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / values.length

const PROSE = [
  (secret: string) => `it printed ${secret} and went on`,
  (secret: string) => `{"log":"first line\\n${secret}\\nlast line"}`,
  (secret: string) => `\u001b[32m${secret}\u001b[0m`,
]

describe('a secret with a special format', () => {
  it.each(ALONE.filter(({ name }) => name !== 'secp256k1-private-key'))('is redacted: $name', (kind) => {
    expect(recall(kind, PROSE)).toBeGreaterThanOrEqual(0.8)
  })

  it('is redacted in nine of ten samples of each list', () => {
    for (const source of ['g', 's']) {
      const kinds = ALONE.filter(({ sources }) => sources.includes(source))

      expect(average(kinds.map((kind) => recall(kind, PROSE)))).toBeGreaterThan(0.95)
    }
  })

  it('cannot be distinguished from a digest if it has 64 hex digits', () => {
    const kind = ALONE.find(({ name }) => name === 'secp256k1-private-key')

    expect(kind && recall(kind, PROSE)).toBe(0)
  })
})

const namedContexts = (service: string) => [
  (secret: string) => `${service} = "${secret}"`,
  (secret: string) => `${service.toUpperCase()}=${secret}`,
  (secret: string) => `  ${service}: ${secret}`,
  (secret: string) => `{"${service}":"${secret}"}`,
]

/** Ways in which settings and source code name a secret. */
const keyContexts = (service: string) => [
  (secret: string) => `${service.toUpperCase()}_TOKEN=${secret}`,
  (secret: string) => `const ${service}Secret: string = '${secret}'`,
  (secret: string) => `var ${service}Token string = "${secret}"`,
  (secret: string) => `${service}_api_key := "${secret}"`,
  (secret: string) => `${service}_TOKEN ?= "${secret}"`,
  (secret: string) => `System.setProperty("${service.toUpperCase()}_TOKEN", "${secret}")`,
  (secret: string) => `<${service}Token>\n  ${secret}\n</${service}Token>`,
  (secret: string) => `- name: ${service.toUpperCase()}_TOKEN\n  value: ${secret}`,
  (secret: string) => `{"name":"${service}_token","value":"${secret}"}`,
]

describe('a secret next to the name of its service', () => {
  it.each(NAMED)('is redacted if only the service is named: $name', (kind) => {
    expect(recall(kind, namedContexts(kind.name))).toBeGreaterThanOrEqual(0.6)
  })

  it.each(NAMED)('is redacted if its name says that it is a secret: $name', (kind) => {
    expect(recall(kind, keyContexts(kind.name))).toBeGreaterThan(0.95)
  })

  it('is redacted in nine of ten samples', () => {
    expect(average(NAMED.map((kind) => recall(kind, namedContexts(kind.name))))).toBeGreaterThan(0.9)
  })
})
