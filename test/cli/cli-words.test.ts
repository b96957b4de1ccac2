import { expect, it } from 'vitest'
import { typedWords } from '../../cli/service/cli-words.ts'

it('names an agent kind as on the command line, and leaves the keys of files as they are', () => {
  expect(
    typedWords(
      'an agent of kind openaiCompatible needs an endpoint (in a cluster: models.openaiCompatible of the environment file)',
    ),
  ).toBe(
    'an agent of kind openai needs an endpoint (in a cluster: models.openaiCompatible of the environment file)',
  )
})
