interface Tagged {
  readonly environment: string
  readonly tags: { readonly owner: string; readonly costCenter: string }
}

/** Tags of everything that a stack makes: whose it is, who pays, and that no hand should change it. */
export function platformTags({ environment, tags }: Tagged): Record<string, string> {
  return { env: environment, owner: tags.owner, costCenter: tags.costCenter, managedBy: 'pulumi' }
}

/** Azure takes 256 characters in a tag. */
const LONGEST = 256

/** Tags of a slice: also until when it is there, and which branch it shows. */
export function sliceTags(
  slice: Tagged & { readonly slug: string; readonly branch: string; readonly expires: string },
): Record<string, string> {
  const { slug, branch, expires } = slice
  return { ...platformTags(slice), slice: slug, branch: branch.slice(0, LONGEST), expires }
}
