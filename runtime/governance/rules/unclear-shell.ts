import type { Rule } from './rule.ts'

/** What a command will run must be visible in its text; where it is not, a person decides. */
export const unclearShell: Rule = {
  name: 'unclear-shell',
  judge: ({ judgement }) => {
    const doubts = judgement()?.doubts ?? []
    return doubts.length === 0
      ? undefined
      : {
          verdict: 'ask',
          reason: `the command cannot be judged by its text: ${doubts.join('; ')}`,
          matched: [],
        }
  },
}
