import { createHash } from 'node:crypto'
import { canonicalJson } from '../../kit/canonical-json.ts'

/** What an approval is bound to: this run, this tool and the request exactly as AgentHost sent it. */
export function approvalBinding(call: {
  runId: string
  tool: string
  request: unknown
  rawDigest?: string | undefined
}): string {
  const { runId, tool, request, rawDigest } = call
  const bound = canonicalJson({ runId, tool, request, ...(rawDigest !== undefined && { rawDigest }) })
  return createHash('sha256').update(bound).digest('hex')
}

/** The short name of a command that people see. */
export const commandHash = (command: string): string =>
  createHash('sha256').update(command, 'utf8').digest('hex').slice(0, 16)

const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu

/** Bidi, zero-width and control characters made visible: what is shown is what runs. */
export const showHidden = (text: string): string =>
  text.replace(HIDDEN, (character) => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`)
