import type { Rule } from './rule.ts'

/** A command that has the form of a destructive pattern is asked about, with the patterns that it has. */
export const destructive: Rule = {
  name: 'destructive',
  judge: ({ policy, judgement }) => {
    const found = judgement()?.destructive ?? []
    if (found.length === 0) return undefined
    const reasons = new Set(
      found.map(
        (pattern) =>
          policy.destructive.find(({ match }) => match.includes(pattern))?.reason ??
          'has a form that the settings name',
      ),
    )
    return { verdict: 'ask', reason: [...reasons].join('; '), matched: found.map(({ text }) => text) }
  },
}
