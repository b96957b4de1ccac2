import * as z from 'zod'

/** Stored in the claim's row; the nonce identifies exactly our claim. */
export const ClaimHandle = z.strictObject({
  namespace: z.string().min(1),
  claimName: z.string().min(1),
  nonce: z.uuid(),
})
export type ClaimHandle = z.infer<typeof ClaimHandle>
