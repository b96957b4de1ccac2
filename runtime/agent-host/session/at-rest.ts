import { SandboxError } from '../../kit/errors.ts'

/**
 * Reads something that must not change at the same time. `stateOf` describes the state and throws if reading is not allowed in it.
 * Throws `conflict` if the state is another one afterwards, because the data may be half of each.
 */
export async function atRest<T>(stateOf: () => string, read: () => Promise<T>): Promise<T> {
  const before = stateOf()
  const result = await read()
  if (stateOf() === before) return result
  throw new SandboxError('conflict', 'the agent went on while its session was exported; export it again')
}
