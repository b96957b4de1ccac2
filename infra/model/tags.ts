interface Tagged {
  readonly environment: string
  readonly tags: { readonly owner: string; readonly costCenter: string }
}

/**
 * Tags of all resources of a stack: environment, owner, cost centre, and `managedBy`, which warns against changes by
 * hand.
 */
export function platformTags({ environment, tags }: Tagged): Record<string, string> {
  return { env: environment, owner: tags.owner, costCenter: tags.costCenter, managedBy: 'pulumi' }
}

/** Azure allows 256 characters in a tag. */
const LONGEST = 256

/** Tags of a slice, which add its expiry time and its branch. */
export function sliceTags(
  slice: Tagged & { readonly slug: string; readonly branch: string; readonly expires: string },
): Record<string, string> {
  const { slug, branch, expires } = slice
  return { ...platformTags(slice), slice: slug, branch: branch.slice(0, LONGEST), expires }
}
