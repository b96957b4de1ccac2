import { createHash } from 'node:crypto'
import { canonicalJson } from '../../../kit/canonical-json.ts'

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

/** Control and format characters, characters that fonts may ignore, and spaces other than the normal space. */
const HIDDEN = /(?![\t\n ])[\p{Cc}\p{Cf}\p{Z}\p{Default_Ignorable_Code_Point}]/gu

/** Makes invisible characters visible, so that a person sees exactly what would run. */
export const showHidden = (text: string): string =>
  text.replace(HIDDEN, (character) => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`)
