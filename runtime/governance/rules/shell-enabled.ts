import { deny, type Rule } from './rule.ts'

/** Layer C: where the shell is off it stays off; nothing lifts it, `direct` neither. */
export const shellEnabled: Rule = {
  name: 'shell-enabled',
  judge: ({ request, settings }) =>
    request.tool === 'run_command' && !settings.shell_enabled
      ? deny('the settings of this run have the shell off')
      : undefined,
}
