import type { ErrorCode } from '../../../contracts/errors.ts'
import { type FileErrorCode, FileOperation, type FileOperationInput } from '../../../contracts/files.ts'
import { SandboxError } from '../../kit/errors.ts'
import type { Caller, RunService } from '../runs/service.ts'

/** HTTP error code for each error of the workspace engine. */
const CODES: Record<FileErrorCode, ErrorCode> = {
  path_empty: 'invalid_path',
  path_nul: 'invalid_path',
  path_absolute: 'invalid_path',
  path_outside: 'invalid_path',
  path_device: 'invalid_path',
  path_stream: 'invalid_path',
  path_too_long: 'invalid_path',
  symlink: 'invalid_path',
  hard_link: 'invalid_path',
  special_file: 'invalid_path',
  not_found: 'not_found',
  not_a_file: 'conflict',
  not_a_directory: 'conflict',
  exists: 'conflict',
  not_empty: 'conflict',
  too_large: 'payload_too_large',
  binary: 'conflict',
  not_unique: 'conflict',
  no_match: 'conflict',
  invalid_pattern: 'invalid_request',
  invalid_patch: 'invalid_request',
  timeout: 'deadline_exceeded',
  denied: 'policy_denied',
  io_error: 'internal',
}

type Target = { readonly caller: Caller; readonly id: string }
type Request = { readonly operation: FileOperationInput; readonly payload?: Uint8Array }

/** Runs one file operation in a sandbox. Throws a `SandboxError` if it fails. */
export async function operateOnFile(service: RunService, { caller, id }: Target, request: Request) {
  const operation = FileOperation.parse(request.operation)
  const { result, payload } = await service.file(caller, id, { ...request, operation })
  if (!result.ok) throw new SandboxError(CODES[result.code], result.message)
  return { result, payload }
}
