import * as z from 'zod'
import { LOCATIONS } from '../config-sections.ts'
import { parseCidr } from '../model/cidr.ts'
import { fitsAzure } from '../model/naming.ts'

const Guid = z.string().regex(/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/, 'must be a GUID in lower case')
const Cidr = z
  .string()
  .refine((text) => parseCidr(text) !== undefined, 'must be an IPv4 range such as 203.0.113.0/24')

/** The settings that an owner writes once for each environment. None of them is secret. */
export const StateConfig = z.strictObject({
  environment: z.string().regex(/^[a-z][a-z0-9]{1,7}$/, 'must be 2 to 8 lower-case letters and digits'),
  subscriptionId: Guid,
  tenantId: Guid,
  location: z.enum(LOCATIONS),
  /** Whose workflows may log in. */
  repository: z
    .string()
    .regex(
      /^[A-Za-z0-9][A-Za-z0-9-]{0,38}\/[A-Za-z0-9._-]{1,100}$/,
      'must be <owner>/<repository> on GitHub',
    ),
  /** Whether this environment has slices of branches; `prod` has none. */
  previews: z.boolean(),
  /**
   * Object id of the identity that copies this environment's images into another environment: `…-ci-up` of prod, if
   * prod is in another subscription. `npm run state -- apply` of prod prints it.
   */
  promotedBy: Guid.optional(),
  /** Entra groups whose members run the program from their own machines. */
  operators: z.array(Guid).max(5),
  /**
   * Addresses that can reach the state and its key; a caller also needs the rights. Runners hosted by GitHub have no
   * fixed range and need `anywhere`; a list needs runners inside it.
   */
  reachedFrom: z.union([z.literal('anywhere'), z.array(Cidr).min(1).max(200)]),
  /** Globally unique names, for the case that the generated name is taken. */
  names: z
    .strictObject({
      storage: z
        .string()
        .regex(/^[a-z0-9]{3,24}$/)
        .optional(),
      vault: z
        .string()
        .refine((name) => fitsAzure('vault', name), 'must be 3 to 24 letters, digits and single "-"')
        .optional(),
    })
    .prefault({}),
})
export type StateConfig = z.infer<typeof StateConfig>

export type ParsedState = { readonly config: StateConfig } | { readonly problems: readonly string[] }

/** Parses the text of a file; every error is reported with its key. */
export function parseStateConfig(text: string): ParsedState {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    return { problems: [`is not JSON: ${error instanceof Error ? error.message : String(error)}`] }
  }
  const parsed = StateConfig.safeParse(value)
  if (!parsed.success)
    return { problems: parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`) }
  const { environment, previews } = parsed.data
  if (environment === 'prod' && previews)
    return { problems: ['previews: must be false in prod: what a branch brings would run beside it'] }
  return { config: parsed.data }
}
