import { SandboxError } from '../kit/errors.ts'

/**
 * Encodes a workspace path for a URL. Throws on segments that a URL parser would resolve, because they would change the
 * route of the request.
 */
export function toUrlPath(path: string): string {
  const segments = path.split('/')
  if (segments.some((segment) => segment === '.' || segment === '..' || segment === '')) {
    throw new SandboxError('invalid_path', `${JSON.stringify(path)} must be a plain path in the workspace`)
  }
  return segments.map(encodeURIComponent).join('/')
}
