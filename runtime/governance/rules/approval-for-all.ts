import type { Rule } from './rule.ts'

/** Asks for approval of every command if `require_approval_for_all_shell` is set. */
export const approvalForAll: Rule = {
  name: 'approval-for-all',
  judge: ({ request, settings }) =>
    request.tool === 'run_command' && settings.require_approval_for_all_shell
      ? { verdict: 'ask', reason: 'every command needs an approval', matched: [] }
      : undefined,
}
