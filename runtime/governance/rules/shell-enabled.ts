import { deny, type Rule } from './rule.ts'

/** Layer C: if the shell is disabled, no setting enables commands, `direct` included. */
export const shellEnabled: Rule = {
  name: 'shell-enabled',
  judge: ({ request, settings }) =>
    request.tool === 'run_command' && !settings.shell_enabled
      ? deny('the settings of this run disable the shell')
      : undefined,
}
