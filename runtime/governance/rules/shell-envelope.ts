import { EXEC_LIMITS } from '../../../contracts/exec.ts'
import { deny, type Rule } from './rule.ts'

/** Limits the size of a command and rejects NUL characters, before any shell sees it. */
export const shellEnvelope: Rule = {
  name: 'shell-envelope',
  judge: ({ request, parsed }) => {
    if (request.tool !== 'run_command') return undefined
    const command = String(parsed['command'])
    if (command.includes('\0')) return deny('command: contains a NUL character')
    const bytes = Buffer.byteLength(command)
    return bytes > EXEC_LIMITS.maxCommandBytes
      ? deny(`command: has ${bytes} bytes, at most ${EXEC_LIMITS.maxCommandBytes} are allowed`)
      : undefined
  },
}
