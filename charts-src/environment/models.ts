import * as z from 'zod'
import { CredentialId } from '../../contracts/egress.ts'

/** Names of models, beginning with the default. A name with a comma could not be in a setting of the service. */
const Names = z
  .array(z.string().regex(/^[\x21-\x2b\x2d-\x7e]{1,256}$/, 'must be visible ASCII characters without ","'))
  .min(1)
  .max(64)
  .refine((names) => new Set(names).size === names.length, 'has a name twice')

export const Models = z.strictObject({
  /** A server with the chat completions API (mode `proxy`). `credential`: the entry of `egress.credentials` that is its key. */
  openaiCompatible: z
    .strictObject({
      baseUrl: z.url({ protocol: /^https$/ }).regex(/^[^@?#]+$/, 'must have no user, query or fragment'),
      credential: CredentialId.optional(),
      names: Names,
    })
    .optional(),
  /** GitHub's models, with the token of the owner of the run. */
  copilot: z.strictObject({ names: Names }).optional(),
  /** Models of the Azure AI resource in `infra.azure.modelHost` (mode `proxy`), with the identity of the egress proxy. */
  foundry: z.strictObject({ names: Names }).optional(),
})
