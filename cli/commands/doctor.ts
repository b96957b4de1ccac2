import type { Command } from 'commander'
import { type CliContext, newServiceCommand } from './command.ts'
export function doctorCommand(_context: CliContext): Command {
  return newServiceCommand({ usage: 'doctor', about: 'x', example: 'agentweaver doctor' })
}
