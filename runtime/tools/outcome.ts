import type { ToolOutcome } from '../../contracts/tools.ts'

type Facts = Extract<ToolOutcome, { ok: true }>['facts']

export const success = (content: string, facts: Facts = {}): ToolOutcome => ({ ok: true, content, facts })

export const failure = (code: string, message: string): ToolOutcome => ({ ok: false, code, message })
