import * as z from 'zod'
import { FILE_LIMITS } from './limits.ts'

const RelativePath = z.string().max(FILE_LIMITS.maxPathBytes)

/** Why a file operation failed. The model sees the code and goes on. */
export const FileErrorCode = z.enum([
  'path_empty',
  'path_nul',
  'path_absolute',
  'path_outside',
  'path_device',
  'path_stream',
  'path_too_long',
  'symlink',
  'hard_link',
  'special_file',
  'not_found',
  'not_a_file',
  'not_a_directory',
  'exists',
  'not_empty',
  'too_large',
  'binary',
  'not_unique',
  'no_match',
  'invalid_pattern',
  'invalid_patch',
  'timeout',
  'denied',
  'io_error',
])
export type FileErrorCode = z.infer<typeof FileErrorCode>

export const FileError = z.strictObject({ ok: z.literal(false), code: FileErrorCode, message: z.string() })
export type FileError = z.infer<typeof FileError>

export const FileEntry = z.strictObject({
  path: z.string(),
  type: z.enum(['file', 'directory', 'symlink', 'other']),
  size: z.int().nonnegative(),
  mtimeMs: z.number(),
  mode: z.int(),
})
export type FileEntry = z.infer<typeof FileEntry>

/**
 * Operations of the workspace engine, as sent to the runner. File contents are the payload of the frame, not part of
 * the JSON. All paths are relative to the workspace root and use `/`.
 */
export const FileOperation = z.discriminatedUnion('op', [
  /** Returns the bytes as payload; `offset` and `length` are in bytes. */
  z.strictObject({
    op: z.literal('read'),
    path: RelativePath,
    offset: z.int().nonnegative().optional(),
    length: z.int().positive().max(FILE_LIMITS.maxReadBytes).optional(),
  }),
  /** The payload is the new content. `create: 'exclusive'` fails with `exists` if the file exists. */
  z.strictObject({
    op: z.literal('write'),
    path: RelativePath,
    create: z.enum(['never', 'allowed', 'exclusive']).default('allowed'),
    parents: z.boolean().default(true),
    mode: z.int().min(0).max(0o777).optional(),
  }),
  z.strictObject({ op: z.literal('stat'), path: RelativePath }),
  z.strictObject({
    op: z.literal('list'),
    path: RelativePath,
    after: z.string().optional(),
    limit: z.int().min(1).max(FILE_LIMITS.listPage).default(FILE_LIMITS.listPage),
  }),
  z.strictObject({ op: z.literal('mkdir'), path: RelativePath, parents: z.boolean().default(true) }),
  z.strictObject({ op: z.literal('delete'), path: RelativePath, recursive: z.boolean().default(false) }),
  z.strictObject({ op: z.literal('rename'), from: RelativePath, to: RelativePath }),
  z.strictObject({
    op: z.literal('grep'),
    pattern: z.string().min(1).max(4096),
    isRegex: z.boolean().default(false),
    include: z.string().max(1024).optional(),
    maxResults: z.int().min(1).max(FILE_LIMITS.grepMax).default(FILE_LIMITS.grepDefault),
  }),
  z.strictObject({
    op: z.literal('find'),
    pattern: z.string().min(1).max(4096),
    maxResults: z.int().min(1).max(FILE_LIMITS.filesMax).default(FILE_LIMITS.filesDefault),
  }),
])
export type FileOperation = z.infer<typeof FileOperation>
export type FileOperationInput = z.input<typeof FileOperation>

/** JSON part of a reply; for `read` the bytes are the payload. */
export const FileResult = z.discriminatedUnion('ok', [
  FileError,
  z.strictObject({
    ok: z.literal(true),
    entry: FileEntry.optional(),
    entries: z.array(FileEntry).optional(),
    /** Set if the list has more entries: pass it as `after`. */
    next: z.string().optional(),
    matches: z.array(z.strictObject({ path: z.string(), line: z.int(), text: z.string() })).optional(),
    paths: z.array(z.string()).optional(),
    /** Whether a search stopped at its result cap or its time limit. */
    truncated: z.boolean().optional(),
  }),
])
export type FileResult = z.infer<typeof FileResult>
