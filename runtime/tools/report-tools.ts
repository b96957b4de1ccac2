import { CONTROL_TOOL_ARGUMENTS, INTENT_MAX_CHARACTERS, TOOL_ARGUMENTS } from '../../contracts/tools.ts'
import { failure, success } from './outcome.ts'
import { defineTool, type Tool } from './tool.ts'

/**
 * Cleans an intent for display: removes control characters and characters that change the text direction, and
 * truncates it.
 */
export const cleanIntent = (intent: string): string =>
  Array.from(
    intent
      .replace(/\p{Cf}/gu, '')
      .replace(/[\s\p{Cc}]+/gu, ' ')
      .trim(),
  )
    .slice(0, INTENT_MAX_CHARACTERS)
    .join('')

export const reportIntentTool = (): Tool =>
  defineTool({
    name: 'report_intent',
    description: 'Tell the user in one short sentence what you are about to do next.',
    schema: TOOL_ARGUMENTS.report_intent,
    run: ({ intent }) => {
      const clean = cleanIntent(intent)
      if (clean === '') return failure('invalid_arguments', 'the intent has no visible text')
      return success('Noted.', { characters: clean.length })
    },
  })

export const askQuestionTool = (): Tool =>
  defineTool({
    name: 'ask_question',
    description: [
      'Ask the user who started this run a question, and wait for the answer.',
      'Use it only for questions that you cannot answer yourself and that affect the result.',
    ].join(' '),
    schema: CONTROL_TOOL_ARGUMENTS.ask_question,
    run: (_args, { answer }) =>
      answer === undefined
        ? failure('no_answer', 'No one answered. Continue as well as you can')
        : success(answer),
  })

export const reportOutcomeTool = (): Tool =>
  defineTool({
    name: 'report_outcome',
    description: [
      'Say once, at the very end, whether the task succeeded or failed, with a short summary for the user.',
      'Say succeeded only after you have checked the result.',
    ].join(' '),
    schema: CONTROL_TOOL_ARGUMENTS.report_outcome,
    run: ({ outcome }) => success('The outcome is recorded.', { outcome }),
  })
