import { deny, type Rule } from './rule.ts'

/** Layer C: commands run isolated, unless the operator set `direct`. */
export const realIsolation: Rule = {
  name: 'real-isolation',
  judge: ({ request, facts, settings }) =>
    request.tool === 'run_command' && !facts.isRealIsolation && !settings.direct
      ? deny('nothing isolates commands here, and the operator did not allow direct execution')
      : undefined,
}
