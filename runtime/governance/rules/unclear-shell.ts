import type { Rule } from './rule.ts'

/** Asks for approval if the text of a command does not show all commands that will run. */
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
