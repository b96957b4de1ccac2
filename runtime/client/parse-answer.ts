import type { z } from 'zod'
import { SandboxError } from '../kit/errors.ts'

/** The lines of a body. */
export async function* linesOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const chunk of chunks) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    yield* lines
  }
  if (rest !== '') yield rest
}

/** Validates an answer in JSON. Throws if it is not of the expected form. */
export function parseAnswer<T extends z.ZodType>(schema: T, text: string): z.output<T> {
  const parsed = schema.safeParse(parseJson(text))
  if (parsed.success) return parsed.data
  throw unknownForm(parsed.error)
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw unknownForm(error)
  }
}

const unknownForm = (cause: unknown) =>
  new SandboxError(
    'internal',
    'This client does not understand the response of the service. Check that both have the same version.',
    { cause },
  )
