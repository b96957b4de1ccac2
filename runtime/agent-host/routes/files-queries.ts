import * as z from 'zod'
import { FILE_LIMITS } from '../../../contracts/limits.ts'

export const ListQuery = z.strictObject({
  dir: z.string().max(FILE_LIMITS.maxPathBytes).default('.'),
  after: z.string().optional(),
  limit: z.coerce.number().int().min(1).max(FILE_LIMITS.listPage).default(FILE_LIMITS.listPage),
})
export const ReadQuery = z.strictObject({
  offset: z.coerce.number().int().nonnegative().optional(),
  length: z.coerce.number().int().positive().max(FILE_LIMITS.maxReadBytes).optional(),
})
export const WriteQuery = z.strictObject({
  create: z.enum(['never', 'allowed', 'exclusive']).default('allowed'),
  mode: z.coerce.number().int().min(0).max(0o777).optional(),
})
export const DeleteQuery = z.strictObject({ recursive: z.stringbool().default(false) })
