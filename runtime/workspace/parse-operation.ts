import { type FileError, FileOperation, type FileOperationInput } from '../../contracts/files.ts'
import { fieldProblems } from '../kit/parse-env.ts'

const PATH_FIELDS = new Set(['path', 'from', 'to'])

/** Returns the operation with its defaults, or the error. */
export function parseOperation(
  input: FileOperationInput,
): { ok: true; operation: FileOperation } | { ok: false; error: FileError } {
  const parsed = FileOperation.safeParse(input)
  if (parsed.success) return { ok: true, operation: parsed.data }
  const isTooLong = parsed.error.issues.some(
    ({ code, path }) => code === 'too_big' && PATH_FIELDS.has(String(path[0])),
  )
  const message = fieldProblems(parsed.error)
    .map((problem) => `${problem.field}: ${problem.message}`)
    .join('; ')
  return { ok: false, error: { ok: false, code: isTooLong ? 'path_too_long' : 'denied', message } }
}
