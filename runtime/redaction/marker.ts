/** Kinds of redacted text, as they appear in markers. */
export type RedactedKind =
  | 'secret'
  | 'private-key'
  | 'jwt'
  | 'bearer'
  | 'basic'
  | 'aws-key'
  | 'github-token'
  | 'gitlab-token'
  | 'azure-secret'
  | 'slack-token'
  | 'stripe-key'
  | 'npm-token'
  | 'pypi-token'
  | 'google-key'
  | 'ai-key'
  | 'service-token'
  | 'url-password'
  | 'password'
  | 'key'
  | 'email'
  | 'ipv4'
  | 'ipv6'
  | 'failed'
  | 'depth'

export const markerOf = (kind: RedactedKind): string => `[REDACTED:${kind}]`

/** Returns whether a text is exactly one marker. */
export const isMarker = (text: string): boolean => /^\[REDACTED:[a-z0-9-]{1,32}\]$/.test(text)
