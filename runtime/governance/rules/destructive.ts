import type { Rule } from './rule.ts'

/** Asks for approval of a command that matches destructive patterns, and lists those patterns. */
export const destructive: Rule = {
  name: 'destructive',
  judge: ({ policy, judgement }) => {
    const found = judgement()?.destructive ?? []
    if (found.length === 0) return undefined
    const reasons = new Set(
      found.map(
        (pattern) =>
          policy.destructive.find(({ match }) => match.includes(pattern))?.reason ??
          'matches a pattern from the settings',
      ),
    )
    return { verdict: 'ask', reason: [...reasons].join('; '), matched: found.map(({ text }) => text) }
  },
}
