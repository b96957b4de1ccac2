import { SandboxError } from '../../kit/errors.ts'

/**
 * Reads data that must not change during the read. `stateOf` returns the current state, and throws if the state does not allow a
 * read. Throws `conflict` if the state differs after the read, because the data may then mix two states.
 */
export async function atRest<T>(stateOf: () => string, read: () => Promise<T>): Promise<T> {
  const before = stateOf()
  const result = await read()
  if (stateOf() === before) return result
  throw new SandboxError('conflict', 'the agent went on while its session was exported; export it again')
}
