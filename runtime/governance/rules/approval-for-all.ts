import type { Rule } from './rule.ts'

/** A person decides about every command where the settings say so. */
export const approvalForAll: Rule = {
  name: 'approval-for-all',
  judge: ({ request, settings }) =>
    request.tool === 'run_command' && settings.require_approval_for_all_shell
      ? { verdict: 'ask', reason: 'every command needs an approval', matched: [] }
      : undefined,
}
